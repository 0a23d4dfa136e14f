package shard

import "context"

// HostFinder is what a store may be able to do beside the contract: look for hosts
// itself, without a table of all of them in memory.
type HostFinder interface {
	// FindHosts gives the hosts that a query asks for, as of one moment.
	FindHosts(ctx context.Context, q HostQuery) (HostMatches, error)
}

// HostQuery asks for the enabled hosts that no AdminState leaves out (LeftOut) and whose root
// provider has room for each amount, by Placement's rule, and that are what else it says: the rules of a request that
// rows alone can answer. Empty fields ask for nothing. Names compare exactly.
type HostQuery struct {
	// Resources are amounts above 0; a class stands once.
	Resources []AmountOf
	// Required are traits of the root provider, all of them; AnyOf has sets, one of
	// each; Forbidden, none. Somewhere are traits that any provider of the host may have.
	Required, Forbidden []string
	Somewhere           []string
	AnyOf               [][]string
	// MemberOf has sets of aggregates, one of each; ForbiddenAggregates, none.
	MemberOf            [][]string
	ForbiddenAggregates []string
	// Zone is one of those that the metadata of the host's aggregates names, apart by
	// commas, under availability_zone, without the space around. With Unzoned, hosts
	// none of whose aggregates has that key are in it, too.
	Zone    string
	Unzoned bool
	// ServiceHost and NodeName are the host's.
	ServiceHost, NodeName string

	// Limit is how many hosts are wanted at most, 0 for all: the first ones by uuid
	// of those from From on, and then of those before it.
	Limit int
	From  string
	// Rows asks for the hosts' rows too.
	Rows bool
}

// AmountOf is an amount of a resource class.
type AmountOf struct {
	ResourceClass string
	Amount        int64
	// OrChild: a host whose root provider has no room for it will do when another
	// provider of its has the class at all.
	OrChild bool
}

// HostMatches is the answer to a HostQuery.
type HostMatches struct {
	// Hosts is how many hosts the shard has, whatever the query.
	Hosts int
	// UUIDs are the hosts found, in the order that Limit speaks of; by uuid without it.
	// More: there are others.
	UUIDs []string
	More  bool
	// Rows are, when they were asked for, the rows of those hosts, as Load gives them:
	// hosts, usages, live claims, namespaces. The AdminStates of such hosts say nothing,
	// and are left out.
	Rows []Change
}
