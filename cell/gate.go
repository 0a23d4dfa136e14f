package cell

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

const (
	// keepReports is how long what a gateway sees counts without a word from it.
	keepReports = 15 * time.Second
	// importLease is how long a gateway may import without a word from the cell.
	importLease = 5 * time.Second
	// behindFor is how long a gateway's rows must be too old before it counts as behind.
	behindFor = 10 * time.Second
)

// gatekeeper is what a replica knows of the cell's upgrade: what gateways report, and
// which of them imports. What must outlive it is in the gate's row.
type gatekeeper struct {
	rules gateRules
	now   func() time.Time

	mu       sync.Mutex
	gateways map[string]*gatewayReport
	// importer imports until then.
	importer    string
	until       time.Time
	comparisons hostComparisons
	// told is the newest verdict, for who watches the replica.
	told verdict

	// news says that a report was taken.
	news chan struct{}

	// moving is held by the judging under way: two at once would only lose to each other.
	moving chan struct{}
}

// gatewayReport is the last report of a gateway; revision is of its services.
type gatewayReport struct {
	legacyReport
	revision uint64
	sent     bool
	// behindSince is since when its rows are older than those of another gateway by more than
	// maxLag; zero when they are not.
	behindSince time.Time
}

func newGatekeeper(rules gateRules, now func() time.Time) *gatekeeper {
	return &gatekeeper{rules: rules, now: now, gateways: map[string]*gatewayReport{}, moving: make(chan struct{}, 1), news: make(chan struct{}, 1)}
}

// heard takes a report. known is false when its services are of a revision that is not
// here: it says nothing then.
func (k *gatekeeper) heard(r legacyReport, revision uint64, unchanged bool) (known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	g := k.gateways[r.gateway]
	if g == nil {
		g = &gatewayReport{}
	}
	switch {
	case r.unreadable != "":
		r.services = g.services
	case unchanged && (!g.sent || g.revision != revision):
		return false
	case unchanged:
		r.services = g.services
	default:
		g.revision, g.sent = revision, true
	}
	r.heard = k.now()
	g.legacyReport = r
	k.gateways[r.gateway] = g
	switch {
	case r.unreadable != "": // it answers from what it has for some seconds
	case k.lag(g) <= k.maxLag():
		g.behindSince = time.Time{}
	case g.behindSince.IsZero():
		g.behindSince = r.heard
	}
	select {
	case k.news <- struct{}{}:
	default: // it is not taken yet
	}
	return true
}

// forget drops gateways that were not heard for too long. The caller holds mu.
func (k *gatekeeper) forget() {
	for name, g := range k.gateways {
		if k.now().Sub(g.heard) > keepReports {
			delete(k.gateways, name)
		}
	}
}

// imports reports whether a gateway is the one that imports.
func (k *gatekeeper) imports(gateway string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.importer == gateway && k.now().Before(k.until)
}

// evidence gives what is known at a moment of store time.
func (k *gatekeeper) evidence(now time.Time, node func(string) registration) evidence {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	e := evidence{now: now, node: node}
	for _, g := range k.gateways {
		e.reports = append(e.reports, g.legacyReport)
	}
	return e
}

// lend reports whether a gateway may import until told otherwise: one at a time, the one
// that does as long as it asks.
func (k *gatekeeper) lend(gateway string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if k.importer != gateway && now.Before(k.until) {
		return false
	}
	k.importer, k.until = gateway, now.Add(importLease)
	return true
}

func (k *gatekeeper) tell(v verdict) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told = v
}

// sameGate reports whether a row is as it is wanted.
func sameGate(g *shard.Gate, want *shard.MoveGate) bool {
	return g != nil && g.State == want.State && g.Reason == want.Reason && g.Pin == want.Pin && g.PinReason == want.PinReason && g.ReturnTo == want.ReturnTo &&
		g.HeldSince.Equal(want.HeldSince) && g.HeldUntil.Equal(want.HeldUntil) && g.Falls == want.Falls && !want.RowsAt.After(g.RowsAt)
}

// maxLag is how much older than another gateway's the rows of a gateway may be. Nova has
// service_down_time be two and a half times what is between two heartbeats, so half of it is more
// than a copy that is not behind ever lacks.
func (k *gatekeeper) maxLag() time.Duration { return k.rules.downTime / 2 }

// lag is how much older than the newest the rows of a gateway are; 0 when it is not known. The
// caller holds mu.
func (k *gatekeeper) lag(g *gatewayReport) (lag time.Duration) {
	if g.readTo.IsZero() {
		return 0
	}
	for _, other := range k.gateways {
		lag = max(lag, other.readTo.Sub(g.readTo))
	}
	return lag
}

// isBehind reports whether a gateway's rows are too old for long enough to count.
func (k *gatekeeper) isBehind(g *gatewayReport) bool {
	return !g.behindSince.IsZero() && k.now().Sub(g.behindSince) >= behindFor
}

// readersMessage lists the gateways that are heard, the one furthest behind first.
func (k *gatekeeper) readersMessage() []*cellgatev1.GateReader {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	now := k.now()
	var list []*cellgatev1.GateReader
	for _, g := range k.gateways {
		m := &cellgatev1.GateReader{Gateway: g.said(), Unreadable: g.unreadable, Imports: g.gateway == k.importer && now.Before(k.until), RequiredVersion: proto.Int32(g.required)}
		if g.downTime > 0 {
			m.ServiceDownTime = durationpb.New(g.downTime)
		}
		if !g.readTo.IsZero() && g.unreadable == "" {
			m.ReadTo, m.Lag = timestamppb.New(g.readTo), durationpb.New(k.lag(g))
		}
		if k.isBehind(g) {
			m.BehindSince = timestamppb.New(g.behindSince)
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *cellgatev1.GateReader) int {
		return cmp.Or(cmp.Compare(b.GetLag().AsDuration(), a.GetLag().AsDuration()), cmp.Compare(a.GetGateway(), b.GetGateway()))
	})
	return list
}

// gateReading is what metrics say of the gate: how many hosts are not new, how many gateways are
// behind and by how much at most, and how many ask for less than another.
type gateReading struct {
	lagging, behind, differing int
	lag                        time.Duration
}

// reading gives what metrics say of the gate.
func (k *gatekeeper) reading() (r gateReading) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	var required int32
	var downTime time.Duration
	for _, g := range k.gateways {
		required, downTime = max(required, g.required), max(downTime, g.downTime)
		if g.unreadable == "" {
			r.lag = max(r.lag, k.lag(g))
		}
		if k.isBehind(g) {
			r.behind++
		}
	}
	for _, g := range k.gateways {
		if g.required < required || g.downTime > 0 && g.downTime < downTime {
			r.differing++
		}
	}
	r.lagging = k.told.laggingHosts
	return r
}

// isRead reports whether a gateway that was heard lately reads Nova's tables.
func (k *gatekeeper) isRead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	for _, g := range k.gateways {
		if g.unreadable == "" {
			return true
		}
	}
	return false
}

// hears reports whether a gateway was heard lately.
func (k *gatekeeper) hears() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	return len(k.gateways) > 0
}

// ofNewHost is what counts of a host that an agent brings and the cell did not know, until reports
// say otherwise (changes): an empty host is what requests choose first, so it cannot wait for the next report.
func (k *gatekeeper) ofNewHost(uuid string) novaWord {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	var readable, named bool
	for _, g := range k.gateways {
		if g.unreadable != "" {
			continue
		}
		readable = true
		for i := range g.services {
			if slices.Contains(g.services[i].named(), uuid) {
				return novaWord{}
			}
			named = named || len(g.services[i].named()) > 0
		}
	}
	switch {
	case named:
		return novaWord{shard.NovaDisabled, unknownToNova}
	case !readable && len(k.gateways) > 0:
		return novaWord{shard.NovaDisabled, unreadableToNova}
	}
	return novaWord{}
}

// services gives the reports with services. Those of gateways that cannot read them say
// nothing.
func (k *gatekeeper) services() []legacyReport {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	var reports []legacyReport
	for _, g := range k.gateways {
		if g.unreadable == "" {
			reports = append(reports, g.legacyReport)
		}
	}
	return reports
}
