package shardtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cellgate/internal/testlong"
	"cellgate/shard"
)

// grain is the unit of time of histories. Leases and clock jumps are multiples of it, and a whole history runs in far
// less.
const grain = 300 * time.Second

func historyClauses() []clause {
	seeds := 3
	if testlong.On() {
		seeds = 20
	}
	var clauses []clause
	for seed := range seeds {
		clauses = append(clauses, clause{name: fmt.Sprintf("I1_I2_I3_I8_I9_DecidedOnAllRows/%d", seed), test: func(s *suite) {
			s.seed()
			s.needs("advance", s.Instance.Advance != nil)
			s.trimmed = true
			_, s.Instance = followHistory(s.T, s.Instance, uint64(seed))
		}})
	}
	return clauses
}

// History sends one history of random operations to a backend, and tells what came of it.
func History(t *testing.T, seed uint64, b Backend) {
	operations, i := followHistory(t, b.Open(t), seed)
	r := Summary{Backend: b.Name + ", one history", Tests: 1, Seeds: 1, Operations: operations}
	if err := i.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	if b.Faults != nil {
		r.Kinds = b.Faults()
	}
	if t.Failed() {
		r.Violations++
	}
	r.Tell(t)
}

// history is a sequence of random operations on a store, compared with shard.Decide on all rows: outcomes, journal
// entries, rows, claims found and leases over.
type history struct {
	*testing.T
	*Instance
	rng   *rand.Rand
	lanes []shard.Lane
	// all has every row, also of ended claims, as the operations so far leave them.
	all *shard.View
	// applied are the entries written, and at is the end of the read ones.
	applied map[shard.LaneID][]shard.Entry
	at      shard.Cursor
	// wrote and read count entries, made counts claims.
	wrote, read, made int
}

// followHistory returns how many operations it sent, and the store, which it restarts where it can.
func followHistory(t *testing.T, i *Instance, seed uint64) (operations int64, last *Instance) {
	const steps, hosts = 200, 4
	h := &history{T: t, rng: rand.New(rand.NewPCG(seed, 11)), all: shard.NewView(shard.ReadSet{}), applied: map[shard.LaneID][]shard.Entry{}}
	h.use(i)
	for n := range steps {
		var ops []shard.Op
		if n < hosts {
			ops = append(ops, shard.Op{PutHost: smallHost(n, 12, 1)})
		}
		for range 1 + h.rng.IntN(4) {
			ops = append(ops, h.operation(n, hosts)...)
		}
		operations += int64(len(ops))
		h.apply(n, ops)
		h.readJournal()
		h.readMore(n)
		if t.Failed() {
			t.Fatalf("seed %d, step %d: %+v", seed, n, ops)
		}
		if h.rng.IntN(8) == 0 {
			h.Advance(time.Duration(1+h.rng.IntN(6)) * grain)
		}
		switch restart := h.rng.IntN(40); {
		case restart == 0 && h.Reopen != nil:
			h.use(h.Reopen(t))
		case restart == 1 && h.Crash != nil:
			old := h.Instance
			h.use(old.Crash(t))
			if err := old.Close(); err != nil {
				t.Errorf("closing the store that crashed: %v", err)
			}
		default:
			continue
		}
		h.readJournal()
		h.checkRows()
	}
	return operations, h.Instance
}

// use goes on with a store, through new lanes.
func (h *history) use(i *Instance) {
	h.Instance, h.lanes = i, nil
	for n := range 2 {
		l, err := i.OpenLane(h.Context(), fmt.Sprintf("replica-%d", n))
		if err != nil {
			h.Fatal(err)
		}
		h.lanes = append(h.lanes, l)
	}
}

func (h *history) apply(step int, ops []shard.Op) {
	a, err := h.lanes[h.rng.IntN(len(h.lanes))].Apply(h.Context(), ops)
	if err != nil {
		h.Fatalf("step %d: %v", step, err)
	}
	at := a.Entry.At
	if at.IsZero() {
		at = h.now()
	}
	d := shard.Decide(at, h.all, ops)
	for i := range ops {
		if !equalRows(&a.Outcomes[i], &d.Outcomes[i]) {
			h.Errorf("operation %d came to\n%s, decided on all rows to\n%s", i, plain(a.Outcomes[i]), plain(d.Outcomes[i]))
		}
	}
	if !equalRows(&a.Entry.Changes, &d.Changes) {
		h.Errorf("wrote\n%s, decided on all rows was\n%s", plain(a.Entry.Changes), plain(d.Changes))
	}
	if a.Entry.Seq > 0 {
		h.wrote++
		h.applied[a.Entry.Lane] = append(h.applied[a.Entry.Lane], a.Entry)
	}
}

func plain(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // JSON can encode every row
	}
	return string(b)
}

func (h *history) now() time.Time {
	now, err := h.Now(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	return now
}

// readJournal follows the journal.
func (h *history) readJournal() {
	entries, at, err := h.Tail(h.Context(), h.at, 100)
	if err != nil {
		h.Fatalf("Tail: %v", err)
	}
	h.at, h.read = at, h.read+len(entries)
	if h.read != h.wrote {
		h.Errorf("the journal gave %d entries of %d", h.read, h.wrote)
	}
	for _, e := range entries {
		if of := h.applied[e.Lane]; e.Seq > uint64(len(of)) || !EqualEntries(e, of[e.Seq-1]) {
			h.Errorf("the journal has\n%s, of\n%s", plain(e), plain(of))
		}
	}
}

// checkRows loads the rows, and finds all claims.
func (h *history) checkRows() {
	rows, _, err := LoadRows(h.Context(), h)
	if err != nil {
		h.Fatalf("Load: %v", err)
	}
	for _, w := range append(rows.Check(), rows.Diff(rowsOf(h.all))...) {
		h.Error("rows, and all rows: " + w)
	}
	h.find(shard.ClaimQuery{Ended: true, Limit: 1000})
}

func (h *history) find(q shard.ClaimQuery) {
	want := slices.DeleteFunc(h.claims(), func(c *shard.Claim) bool { return !q.Matches(c) })
	page := shard.ClaimPage{Claims: want[:min(q.Limit, len(want))], More: len(want) > q.Limit}
	if p, err := h.FindClaims(h.Context(), q); err != nil || !equalRows(&p, &page) {
		h.Errorf("%+v finds\n%s, %v; want\n%s", q, plain(p), err, plain(page))
	}
}

// claims are all claims by id.
func (h *history) claims() []*shard.Claim {
	return slices.SortedFunc(maps.Values(h.all.Claims), func(a, b *shard.Claim) int { return cmp.Compare(a.ClaimID, b.ClaimID) })
}

// readMore sometimes makes another read.
func (h *history) readMore(step int) {
	switch h.rng.IntN(6) {
	case 0:
		h.checkRows()
	case 1:
		due, err := h.Due(h.Context(), 1000)
		slices.SortFunc(due, func(a, b shard.ClaimRef) int { return cmp.Compare(a.ClaimID, b.ClaimID) })
		var want []shard.ClaimRef
		for _, c := range h.claims() {
			if c.State == shard.Pending && !h.now().Before(c.ExpiresAt) {
				want = append(want, shard.ClaimRef{ClaimID: c.ClaimID, ConsumerUUID: c.ConsumerUUID})
			}
		}
		if err != nil || !equalRows(&due, &want) {
			h.Errorf("due are %v, %v; want %v", due, err, want)
		}
	case 2:
		q := shard.ClaimQuery{Ended: h.rng.IntN(2) == 0, Limit: 1 + h.rng.IntN(5)}
		switch h.rng.IntN(4) {
		case 0:
			q.HostUUID = HostID(h.rng.IntN(4))
		case 1:
			q.ConsumerUUIDs = []string{ConsumerID(h.rng.IntN(h.made + 1)), ConsumerID(h.rng.IntN(h.made + 1))}
		case 2:
			q.ProjectID = "project-1"
		}
		if h.rng.IntN(2) == 0 {
			q.After = ClaimID(h.rng.IntN(h.made + 1))
		}
		h.find(q)
	case 3:
		if step%5 == 0 {
			// Half a grain keeps the limit away from every time written.
			if err := h.Trim(h.Context(), h.now().Add(-grain/2-time.Duration(h.rng.IntN(3))*grain)); err != nil {
				h.Fatalf("Trim: %v", err)
			}
		}
	}
}

// smallHost is a hardwareHost with few VCPUs and nothing else.
func smallHost(n int, vcpus int64, version uint64, pinned ...int) *shard.PutHost {
	p := hardwareHost(n, version, pinned...)
	p.Host.Providers = NewHost(n, vcpus).Host.Providers
	return p
}

// operation makes an operation that is likely to have an effect, or two that belong together.
func (h *history) operation(step, hosts int) []shard.Op {
	rng := h.rng
	n := rng.IntN(h.made + 1)
	ref := *Ref(n)
	if claims := h.claims(); len(claims) > 0 && rng.IntN(8) > 0 {
		c := claims[max(0, len(claims)-1-rng.IntN(8))] // one of the last
		ref.ClaimID, ref.ConsumerUUID = c.ClaimID, c.ConsumerUUID
	}
	ttl := time.Duration(2*(1+rng.IntN(5))) * grain
	group := GroupID(rng.IntN(3))
	host, orNone := rng.IntN(hosts), rng.IntN(hosts+1) // the last one does not exist
	asOf := []int64{0, 0, 0, 3, 30, 300}[rng.IntN(6)]
	instances := func(most int) (list []shard.Instance) {
		for _, i := range rng.Perm(h.made + 3)[:rng.IntN(most+1)] {
			list = append(list, shard.Instance{UUID: ConsumerID(i), ProjectID: "project-2", UserID: "user-2", Allocations: on(host, 1+rng.Int64N(2)).Allocations})
		}
		return list
	}
	claim := func(vcpus int64) *shard.NewClaim {
		h.made++
		c := NewClaim(h.made, host, vcpus)
		c.TTL, c.Attempt = ttl, "attempt-0"
		if rng.IntN(6) == 0 {
			c.ConsumerUUID = ref.ConsumerUUID
		}
		return c
	}
	switch rng.IntN(44) {
	case 0, 1:
		ref.Reinstate = rng.IntN(3) == 0
		return []shard.Op{{Confirm: &ref}}
	case 2, 3:
		ref.PendingOnly = rng.IntN(3) == 0
		return []shard.Op{{Release: &ref}}
	case 4:
		ref.ReportedGoneBy = &shard.Registration{BootID: "boot-1", StateVersion: uint64(step)}
		if h := h.all.Hosts[HostID(host)]; h != nil && rng.IntN(4) > 0 {
			ref.ReportedGoneBy = new(h.Registration())
		}
		return []shard.Op{{Release: &ref}}
	case 5:
		return []shard.Op{{Expire: &ref}}
	case 6:
		return []shard.Op{{Pin: &shard.NewPin{GroupUUID: group, ServiceHost: ServiceHost(host), ClaimID: ref.ClaimID, TTL: ttl}}}
	case 7:
		return []shard.Op{{Unpin: &shard.Unpin{GroupUUID: group, ClaimID: ref.ClaimID}}}
	case 8, 9:
		s := swapTo(n, host)
		s.ClaimID, s.ConsumerUUID, s.TTL = ref.ClaimID, ref.ConsumerUUID, ttl
		return []shard.Op{{Swap: s}}
	case 10:
		return []shard.Op{{Transfer: &shard.Transfer{ClaimID: ref.ClaimID, ConsumerUUID: ref.ConsumerUUID, ToConsumer: ConsumerID(500_000 + rng.IntN(4))}}}
	case 11:
		ref.Attempt = fmt.Sprint("attempt-", rng.IntN(2))
		return []shard.Op{{TakeOver: &ref}}
	case 12, 13:
		c := claim(1)
		c.ConsumerUUID, c.Moves = ref.ConsumerUUID, ref.ClaimID
		return []shard.Op{{Claim: c}, {Confirm: &shard.ClaimRef{ClaimID: c.ClaimID, ConsumerUUID: c.ConsumerUUID}}}
	case 14, 15:
		p := smallHost(host, 8+rng.Int64N(8), uint64(step+2), rng.Perm(4)[:rng.IntN(3)]...)
		p.Host.Disabled, p.Host.InstancesUnknown = rng.IntN(8) == 0, rng.IntN(6) == 0
		if !p.Host.InstancesUnknown {
			p.Instances = instances(3)
		}
		return []shard.Op{{PutHost: p}}
	case 16:
		m := &shard.MoveGate{State: []shard.GateState{shard.GateLegacy, shard.GateShadow, shard.GateNative, shard.GateNative}[rng.IntN(4)], Reason: "by chance", Falls: rng.Int32N(2)}
		if h.all.Gate != nil {
			m.Revision = h.all.Gate.Revision
		}
		return []shard.Op{{MoveGate: m}}
	case 17, 18:
		p := importedHost(host, 10+rng.Int64N(2), instances(2)...)
		p.Host.BootID, p.Host.StateVersion = "import-1", uint64(step+2)
		if n := rng.IntN(3); n > 0 {
			p.Host.Providers[0].Inventories[0].AllocationRatio = float64(n)
			p.Host.Aggregates = []shard.Aggregate{{UUID: GroupID(n), Name: "rack"}}
		}
		return []shard.Op{{PutHost: p}}
	case 19, 20:
		p := putFacts(orNone, []string{"cinder", "neutron"}[rng.IntN(2)], []string{"", `{}`, `{"a":1}`}[rng.IntN(3)])
		p.IfGeneration, p.AsOf = []int64{0, 0, -1, 3}[rng.IntN(4)], asOf
		return []shard.Op{{PutFacts: p}}
	case 21, 22:
		j := []*shard.RecordVerdict{rejects(n, host, uint64(step+1)), aborts(n, host, uint64(step+1)), accepts(n, host, uint64(step+1))}[rng.IntN(3)]
		j.ClaimID = ref.ClaimID
		if c := h.all.Claims[ref.ClaimID]; c != nil && rng.IntN(4) > 0 {
			j.HostUUID = c.HostUUID
		}
		j.End = j.Verdict.Outcome == shard.VerdictRejected && rng.IntN(3) == 0
		return []shard.Op{{RecordVerdict: j}}
	case 23, 24:
		p := setAdmin(orNone, shard.ConditionEnabled)
		if rng.IntN(5) == 0 {
			p.State = []shard.ConditionState{shard.ConditionDisabled, shard.ConditionMaintenance, shard.ConditionForcedDown}[rng.IntN(3)]
		}
		if p.State == shard.ConditionMaintenance && rng.IntN(4) > 0 {
			p.For = time.Duration(2*(1+rng.IntN(3))) * grain
		}
		p.AsOf, p.EndsNova = asOf, rng.IntN(4) == 0
		return []shard.Op{{SetAdminState: p}}
	case 25:
		p := setNova(orNone, "")
		if rng.IntN(5) == 0 {
			p = setNova(orNone, []shard.ConditionState{shard.ConditionDisabled, shard.ConditionForcedDown, shard.ConditionSilent}[rng.IntN(3)])
		}
		if at := rng.IntN(4); at > 0 {
			p.At = time.Unix(int64(at), 0).UTC()
		}
		return []shard.Op{{SetNovaState: p}, {SetSilent: &shard.SetSilent{HostUUID: HostID(orNone), Silent: rng.IntN(3) > 0}}}
	case 26:
		return []shard.Op{{EndMaintenance: endMaintenance(orNone)}, {Audit: &shard.Audit{HostUUID: HostID(orNone), Repair: true}}}
	case 27:
		name := &shard.NameRef{Kind: []shard.NameKind{shard.ClassName, shard.TraitName}[rng.IntN(2)], Name: fmt.Sprint("CUSTOM_", rng.IntN(3))}
		if rng.IntN(3) == 0 {
			return []shard.Op{{DeleteName: name}}
		}
		return []shard.Op{{PutName: name}}
	case 28, 29:
		w := &shard.WritePlacement{}
		if rng.IntN(2) == 0 {
			w.Providers = []shard.ProviderWrite{rootWrite(host, 10), childWrite(host, host)}[:1+rng.IntN(2)]
			w.Providers[0].Create = rng.IntN(3) > 0
		}
		if rng.IntN(2) == 0 {
			to := holds(500_000+rng.IntN(4), []shard.RootAllocations{on(host, 1+rng.Int64N(2)), on((host+1)%hosts, 1)}[:1+rng.IntN(2)]...)
			from := shard.ConsumerWrite{UUID: ref.ConsumerUUID, AnyGeneration: true}
			w.Consumers = []shard.ConsumerWrite{to, from}[:1+rng.IntN(2)]
		}
		return []shard.Op{{WritePlacement: w}}
	case 30:
		if rng.IntN(4) == 0 {
			return []shard.Op{{RemoveHost: removeHost(host)}}
		}
		h.made++
		return []shard.Op{{Claim: hardwareKinds[rng.IntN(len(hardwareKinds))].takes(h.made, host, 1+rng.Int64N(2))}}
	case 31, 32:
		c := claim(1)
		c.Group = &shard.Group{UUID: group, Policy: []string{"anti-affinity", "affinity", "soft-anti-affinity"}[rng.IntN(3)], MaxPerHost: 1 + rng.Int32N(2), Members: []string{ref.ConsumerUUID}}
		return []shard.Op{{Claim: c}}
	}
	return []shard.Op{{Claim: claim(1 + rng.Int64N(4))}}
}
