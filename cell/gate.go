package cell

import (
	"context"
	"sync"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

const (
	// keepReports is how long what a gateway sees counts without a word from it.
	keepReports = 15 * time.Second
	// importLease is how long a gateway may import without a word from the cell.
	importLease = 5 * time.Second
	// gateTries is how often a move is tried that others' moves came before.
	gateTries = 4
)

// gatekeeper is what a replica knows of the cell's upgrade: what gateways report, and
// which of them imports. What must outlive it is in the gate's row.
type gatekeeper struct {
	rules gateRules
	now   func() time.Time

	mu       sync.Mutex
	gateways map[string]*gatewayReport
	// gone is the newest report of those that are forgotten, for a while; nil for none.
	gone    *gatewayReport
	readers novaReaders
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
	at       time.Time
}

func newGatekeeper(cfg Config, now func() time.Time) *gatekeeper {
	return &gatekeeper{
		rules: gateRules{
			settle: cfg.GateSettle, classes: cfg.GateClasses, agentVersion: int32(cfg.GateAgentVersion), downTime: cfg.ServiceDownTime,
		},
		now: now, gateways: map[string]*gatewayReport{}, readers: newNovaReaders(cfg.ServiceDownTime), moving: make(chan struct{}, 1), news: make(chan struct{}, 1),
	}
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
	g.legacyReport, g.at = r, r.heard
	k.gateways[r.gateway] = g
	select {
	case k.news <- struct{}{}:
	default: // it is not taken yet
	}
	return true
}

// forget drops gateways that were not heard for too long. The caller holds mu.
func (k *gatekeeper) forget() {
	for name, g := range k.gateways {
		if k.now().Sub(g.at) > keepReports {
			delete(k.gateways, name)
			k.goes(g)
		}
	}
	if k.gone != nil && k.now().Sub(k.gone.at) > keepReports+keepNewest*k.rules.downTime {
		k.gone = nil
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
	var gone *legacyReport
	if k.gone != nil {
		gone = &k.gone.legacyReport
	}
	e.reports = k.rules.newestRows(e.reports, gone, now)
	return e
}

// mayImport reports whether a gateway is to import: in every state of the gate.
func (c *Cell) mayImport(req *cellv1.ReportLegacyRequest, g *shard.Gate) bool {
	return g != nil && c.gate.lend(req.GetGateway())
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

func hasClass(h *shard.Host, class string) bool {
	for i := range h.Providers {
		for _, inv := range h.Providers[i].Inventories {
			if inv.ResourceClass == class {
				return true
			}
		}
	}
	return false
}

// judged judges the gate and, with move, moves it. It gives the gate afterwards and the
// verdict that goes with it. imported is a moment of store time at which all that Nova's tables said
// was in the shard; zero for none.
func (c *Cell) judged(ctx context.Context, move bool, imported time.Time) (*shard.Gate, verdict, error) {
	select {
	case c.gate.moving <- struct{}{}:
		defer func() { <-c.gate.moving }()
	case <-ctx.Done():
		return nil, verdict{}, ctx.Err()
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return nil, verdict{}, storeFault(err)
	}
	g := c.rows.gateRow()
	for range gateTries {
		v := c.gate.rules.judge(g, c.gate.evidence(now, c.registrationsUnder(g)))
		if g == nil || imported.Sub(g.RowsAt) >= rowsEvery {
			v.want.RowsAt = imported
		}
		c.gate.tell(v)
		if !move || sameGate(g, &v.want) {
			return g, v, nil
		}
		next, moved, err := c.moveGate(ctx, g, &v.want, word{})
		if err != nil {
			return nil, v, err
		}
		if g = next; moved {
			// The verdict was of the state before.
			v = c.gate.rules.judge(g, c.gate.evidence(now, c.registrationsUnder(g)))
			c.gate.tell(v)
			return g, v, nil
		}
	}
	return nil, verdict{}, fault.New(fault.Contended, "others move the gate of cell %s all the time", c.cfg.Name)
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

// word is an operator's; zero for the rules.
type word struct{ who, why string }

// moveGate writes the gate, with a line in the log when it moves, is pinned or let go, by
// the word of an operator. moved is false when another replica came before: next is then
// the row that it wrote.
func (c *Cell) moveGate(ctx context.Context, old *shard.Gate, want *shard.MoveGate, by word) (next *shard.Gate, moved bool, err error) {
	if old != nil && old.RowsAt.After(want.RowsAt) {
		want.RowsAt = old.RowsAt
	}
	answers, err := c.queue.do(ctx, []shard.Op{{MoveGate: want}}, true)
	if err != nil {
		return nil, false, err
	}
	if err := answers[0].err; err != nil {
		return nil, false, err
	}
	out := answers[0].outcome
	if r := out.Refusal; r != nil {
		if r.Kind == fault.StaleGeneration {
			c.table.writer.publish(tableUpdate{changes: gateChange(out.Gate)})
			return out.Gate, false, nil
		}
		return nil, false, fault.New(r.Kind, "%s", r.Message)
	}
	from, pin := "none", shard.GateState("")
	if old != nil {
		from, pin = string(old.State), old.Pin
	}
	switch g := out.Gate; {
	case string(g.State) != from:
		c.tel.GateMoved(string(g.State))
		c.log.Warn("audit: the gate moved", "from", from, "to", g.State, "epoch", g.Epoch, "reason", g.Reason, "who", by.who)
	case g.Pin == "" && pin != "":
		c.log.Warn("audit: the gate was let go", "state", g.State, "pinned", pin, "epoch", g.Epoch, "reason", by.why, "who", by.who)
	case by != word{}:
		c.log.Warn("audit: the gate was pinned", "state", g.State, "epoch", g.Epoch, "reason", by.why, "who", by.who)
	}
	return out.Gate, true, nil
}

func gateChange(g *shard.Gate) []shard.Change {
	if g == nil {
		return nil
	}
	return []shard.Change{{Gate: g}}
}
