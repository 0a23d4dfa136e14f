package shard

import "context"

// HostFinder is an optional ability of a store: it finds hosts itself, without a table of all of them in memory.
type HostFinder interface {
	// FindHosts gives the hosts that a query asks for, as of one moment.
	FindHosts(ctx context.Context, q HostQuery) (HostMatches, error)
}

// HostQuery asks for enabled hosts that no AdminState leaves out (LeftOut), whose root provider has room for each
// amount by Placement's rule, and that match the other fields. These are the rules of a request that rows alone can
// answer. Empty fields do not restrict. Names compare exactly.
type HostQuery struct {
	// Resources are amounts above 0, each class at most once.
	Resources []AmountOf
	// Required: the root provider has all of these traits; AnyOf: at least one of each set; Forbidden: none.
	// Somewhere: every trait is on some provider of the host.
	Required, Forbidden []string
	Somewhere           []string
	AnyOf               [][]string
	// MemberOf: the host is in an aggregate of each set; ForbiddenAggregates: in none.
	MemberOf            [][]string
	ForbiddenAggregates []string
	// Zone must be among the zones of the host's aggregates (Aggregate.Zones). With Unzoned, hosts without a zoned
	// aggregate match too.
	Zone    string
	Unzoned bool
	// ServiceHost and NodeName must equal the host's.
	ServiceHost, NodeName string

	// Limit is the greatest number of hosts to return, 0 for all. They are the first ones by uuid from From on, then
	// those before From.
	Limit int
	From  string
	// Rows: return the hosts' rows too.
	Rows bool
}

// AmountOf is an amount of a resource class.
type AmountOf struct {
	ResourceClass string
	Amount        int64
	// OrChild: a host whose root provider has no room matches if another provider of the host has the class at all.
	OrChild bool
}

// HostMatches is the answer to a HostQuery.
type HostMatches struct {
	// Hosts is how many hosts the shard has, whatever the query.
	Hosts int
	// UUIDs are the hosts found, in the order of HostQuery.Limit; without a limit by uuid. More: there are others.
	UUIDs []string
	More  bool
	// Rows, if asked for, are the rows of those hosts, as Load gives them: hosts, usages, live claims, namespaces.
	// AdminStates are left out: none of those hosts has one that withholds it.
	Rows []Change
}
