package schedule

import (
	"errors"

	"cellgate/schedule/hardware"
)

// Query asks a table for its best hosts.
type Query struct {
	Request *Request
	Rules   *Rules
	// Seed orders hosts of equal weight: see Tie.
	Seed uint64
	// Limit bounds the number of candidates; at least 1.
	Limit int
	// Known are the statistics over all cells; nil if not known.
	Known *GlobalStats
	// TentativePlacements are the picks already made for this request, in order. The answer is as if the instances
	// were on these hosts. Picks on hosts that are not in the table are ignored.
	TentativePlacements []TentativePlacement
	// Forecast, if above 0, asks for Proposal.Forecast, of at most that many picks.
	Forecast int
	// NearMisses, if above 0, asks for Proposal.NearMisses, at most that many.
	NearMisses int
	// Stop is called now and then. If it gives true, because the caller no longer waits, the query ends with
	// ErrStopped. Nil: never.
	Stop func() bool
}

// ErrStopped is the error of a query that its Stop ended.
var ErrStopped = errors.New(hardware.Stopped.Message)

// stopEvery is the number of chunks between calls of Stop.
const stopEvery = 16

func (q *Query) stopped(chunk int) bool {
	return q.Stop != nil && chunk%stopEvery == 0 && q.Stop()
}

// stop is asked by searches that may take long on one host. Once it gives true, the query ends with ErrStopped.
func (s *scan) stop() bool {
	s.halted = s.halted || s.q.Stop != nil && s.q.Stop()
	return s.halted
}

// TentativePlacement is a pick: an instance placed on a host.
type TentativePlacement struct {
	Host     ID
	Instance ID
}

// GlobalStats is what a table must know of the other cells to rank as one scheduler over all hosts would.
type GlobalStats struct {
	// Bounds has one for each of Rules.Weighers. Empty: rank by own bounds.
	Bounds []Bounds
	// Passed is how many hosts passed in all cells. Nova weighs nothing when
	// only one passes: every weight is then 0.
	Passed int64
	// GroupHosts are the service hosts with members of the group in all cells, including Request.Group.Hosts; sorted,
	// without duplicates. Only valid with GroupHostsKnown. Without it a table uses its own members' hosts and
	// Request.Group.Hosts.
	GroupHosts      []string
	GroupHostsKnown bool
}

// Bounds are the least and greatest raw weight over the hosts that passed, after clamping to the weigher's minimum.
// If a weigher has a minimum (RAM, CPU, disk, io_ops: 0), Min is always that value, as in Nova's normalization. If no
// host passed, Min > Max (NoBounds).
type Bounds struct {
	Min float64
	Max float64
}

// Proposal is a table's answer.
type Proposal struct {
	// Hosts is the number of hosts in the table, Passed how many passed.
	Hosts  int
	Passed int
	// Rejects are the checks that rejected a host, in filter order. The sum of their Hosts is Hosts - Passed.
	Rejects []Reject
	// Bounds are this table's own, one for each of Rules.Weighers.
	Bounds []Bounds
	// GroupHosts are the hosts of this table with members of the group, by service host; nil without a group.
	GroupHosts []GroupHost
	// Candidates, best first: greater weight, then greater Tie, then lesser
	// uuid. At most Limit.
	Candidates []Candidate
	// Multipliers are the least and greatest multipliers of the hosts that passed, one for each of Rules.Weighers;
	// nil if the rules' apply to all.
	Multipliers []Bounds
	// Warnings by key.
	Warnings []Warning
	// NovaException is what Nova raises instead of an answer; only with Options.StrictNova. At the stage weigh it
	// only counts if more than one host passed in all cells: Nova does not weigh a single host.
	NovaException *NovaException
	// NearMisses are set if the query asks for them.
	NearMisses *NearMisses
	// Forecast is set if the query asks for it and the table can give one.
	Forecast *Forecast
}

// Reject counts the hosts that a check was the first to reject. Detail names the condition of the filter, such as a
// resource class or a trait; it may be empty.
type Reject struct {
	Filter string
	Detail string
	Hosts  int
	// Example is a service host, if the detail is Unreadable. Class and Message are of the exception that Nova raises
	// for it, the message cut to 512 bytes.
	Example, Class, Message string
}

// Warning is a value that hosts report and that cannot be used, so that an option applies instead.
type Warning struct {
	// Key is a metadata key of aggregates whose value is not a number, or a weigher that lacks its input.
	Key   string
	Hosts int
	// Example is a service host. Class and Message are of the exception that Nova raises for it, the message cut to
	// 512 bytes; empty if Nova raises none.
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
	// Multipliers are the host's own, one for each of Rules.Weighers, if its aggregates override the rules'. Nil: the
	// rules'.
	Multipliers []float64
	// Weight is the sum of multiplier * normalised over the weighers, in
	// their order, under the bounds of the query (or the table's own).
	Weight float64
	// Tie is Tie(seed, host).
	Tie uint64
	// Allocation is what the instance takes of the host. Nil: the request's Resources of the root provider. It is
	// never changed.
	Allocation *Allocation
	// Limits are those that filters set for the host; nil for none. They are never changed.
	Limits *Limits
}

// Better reports whether a ranks before b: greater weight, then greater Tie, then lesser uuid. It is a total order of
// different hosts.
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

// Draw is the seed's random number for the n-th pick of a request, from 0.
func Draw(seed uint64, n int) uint64 { return Tie(seed, mix64(uint64(n))) }
