package schedule

import "errors"

// Query asks a table for its best hosts.
type Query struct {
	Request *Request
	Rules   *Rules
	// Seed decides among equal weights: see Tie.
	Seed uint64
	// Limit is how many candidates are wanted at most; at least 1.
	Limit int
	// Known is what is known over all cells; nil means nothing.
	Known *GlobalStats
	// TentativePlacements are the picks already made on this table for this request, in
	// order. The answer is as if the hosts were already used so. Those on hosts
	// the table does not have are not its business.
	TentativePlacements []TentativePlacement
	// Forecast, above 0, asks for Proposal.Forecast too: of so many picks at most.
	Forecast int
	// NearMisses, above 0, asks for Proposal.NearMisses too, so many at most.
	NearMisses int
	// Openings, above 0 and with NearMisses, asks for NearMisses.Openings too, of so many instances that are still to be
	// placed. Together is how many the request has in all if hard affinity binds them to one host and none is bound by
	// members from before; else 0.
	Openings, Together int
	// Stop is asked now and then, and true ends the query with ErrStopped: nobody
	// waits for the answer any more. Nil: never.
	Stop func() bool
}

// ErrStopped is the error of a query that its Stop ended.
var ErrStopped = errors.New("the query was stopped")

// stopEvery is after how many chunks Stop is asked.
const stopEvery = 16

func (q *Query) stopped(chunk int) bool {
	return q.Stop != nil && chunk%stopEvery == 0 && q.Stop()
}

// TentativePlacement is a pick: an instance placed on a host.
type TentativePlacement struct {
	Host     ID
	Instance ID
}

// GlobalStats is what a table must know of the other cells to rank as one
// scheduler over all hosts would.
type GlobalStats struct {
	// Bounds has one for each of Rules.Weighers. Empty: rank by own bounds.
	Bounds []Bounds
	// Passed is how many hosts passed in all cells. Nova weighs nothing when
	// only one passes: every weight is then 0.
	Passed int64
	// GroupHosts are the service hosts that hold members of the group in all
	// cells, those of Request.Group.Hosts included; sorted, no doubles. Only
	// meaningful with GroupHostsKnown; without it a table uses what it holds
	// itself and Request.Group.Hosts.
	GroupHosts      []string
	GroupHostsKnown bool
}

// Bounds are the least and greatest raw weight over the hosts that passed,
// after clamping to the weigher's minimum. A weigher with a minimum of its own
// (RAM, CPU, disk, io_ops: 0) has Min at that value always, as in Nova's
// normalisation. None passed: Min > Max (NoBounds).
type Bounds struct {
	Min float64
	Max float64
}

// Proposal is a table's answer.
type Proposal struct {
	// Hosts looked at: every host of the table.
	Hosts  int
	Passed int
	// Rejects has every check that rejected a host, in filter order; the sum
	// of their Hosts is Hosts - Passed.
	Rejects []Reject
	// Bounds are this table's own, one for each of Rules.Weighers.
	Bounds []Bounds
	// GroupHosts are the hosts of this table that hold members of the group,
	// by service host; nil without a group.
	GroupHosts []GroupHost
	// Candidates, best first: greater weight, then greater Tie, then lesser
	// uuid. At most Limit.
	Candidates []Candidate
	// Multipliers are the least and greatest that hosts which passed have of
	// their own, one for each of Rules.Weighers; nil when the rules' hold for
	// all.
	Multipliers []Bounds
	// Warnings by key.
	Warnings []Warning
	// NovaException is what Nova raises instead of an answer; only with
	// Options.StrictNova. Of the stage weigh it counts only when more than one
	// host passed in all cells: Nova weighs no single host.
	NovaException *NovaException
	// NearMisses are set when the query asked for them.
	NearMisses *NearMisses
	// Forecast is set when the query asked for it and there is one.
	Forecast *Forecast
}

// Reject counts the hosts a check was the first to reject. Detail says what of
// the filter: a resource class, a trait. It may be empty.
type Reject struct {
	Filter string
	Detail string
	Hosts  int
	// Example is a service host, where the detail is Unreadable; Class and Message are
	// of the exception that Nova raises for it, the message cut to 512 bytes.
	Example, Class, Message string
}

// Warning is something that hosts say and that cannot be used, so that an option
// counts instead.
type Warning struct {
	// Key of the aggregates' metadata whose value is no number, or a weigher
	// that lacks what it reads.
	Key   string
	Hosts int
	// Example is a service host; Class and Message are of the exception that Nova
	// raises for it, the message cut to 512 bytes. Empty where it raises none.
	Example, Class, Message string
}

// GroupHost is a host with members of the request's group.
type GroupHost struct {
	Host        ID
	ServiceHost string
	Members     int
}

// Candidate is a host that passed.
type Candidate struct {
	Host        ID
	ServiceHost string
	NodeName    string
	// Zone is the host's first zone by name, or the default zone.
	Zone string
	// Raw has one for each of Rules.Weighers, after clamping.
	Raw []float64
	// Multipliers of the host's own, one for each of Rules.Weighers: aggregates
	// override the rules'. Nil: those of the rules.
	Multipliers []float64
	// Weight is the sum of multiplier * normalised over the weighers, in
	// their order, under the bounds of the query (or the table's own).
	Weight float64
	// Tie is Tie(seed, host).
	Tie uint64
	// Allocation is what the instance takes of the host; nil: the request's
	// Resources, of the root provider. It is never changed.
	Allocation *Allocation
	// Limits that filters set of the host; nil: none. They are never changed.
	Limits *Limits
}

// Better reports whether a comes before b: greater weight, then greater Tie,
// then lesser uuid. It is a total order over different hosts.
func (a *Candidate) Better(b *Candidate) bool {
	if a.Weight != b.Weight {
		return a.Weight > b.Weight
	}
	if a.Tie != b.Tie {
		return a.Tie > b.Tie
	}
	return string(a.Host[:]) < string(b.Host[:])
}

// HostHash is the part of Tie that depends on the host alone: FNV-1a over the
// uuid's bytes.
func HostHash(host ID) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range host {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

// Tie mixes a request's seed with a host's hash, so that requests that see
// equal weights do not all choose the same host, while one request sees the same
// order from any split into cells. The mix is splitmix64's finaliser.
func Tie(seed, hostHash uint64) uint64 {
	z := seed ^ hostHash
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}
