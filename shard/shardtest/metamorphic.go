package shardtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cellgate/shard"
)

// grain is the unit of time of Metamorphic's histories. Leases and clock jumps are multiples of it, and a whole
// history runs in far less.
const grain = 300 * time.Second

// Metamorphic sends the same random operations to each backend. It fails if a backend differs from the first in
// outcomes, journal entries, rows, claims found or leases over. It compares times by the grain. The backends need
// Advance.
func Metamorphic(t *testing.T, seed uint64, backends ...Backend) {
	var first []string
	for i, b := range backends {
		var operations int
		history := recordHistory(t, seed, b, &operations)
		r := Summary{Backend: b.Name + ", one history", Tests: 1, Seeds: 1, Operations: int64(operations)}
		if b.Faults != nil {
			r.Kinds = b.Faults()
		}
		if i == 0 {
			first = history
		}
		for n := range max(len(first), len(history)) {
			var want, got string
			if n < len(first) {
				want = first[n]
			}
			if n < len(history) {
				got = history[n]
			}
			if want != got {
				at := 0
				for at < min(len(want), len(got)) && want[at] == got[at] {
					at++
				}
				cut := max(0, at-200)
				t.Errorf("seed %d, line %d of %d of the history differs at byte %d: %s has\n%s\nand %s\n%s",
					seed, n, len(first), at, backends[0].Name, want[cut:min(len(want), at+200)], b.Name, got[cut:min(len(got), at+200)])
				r.Violations++
				break
			}
		}
		r.Tell(t)
	}
}

// historyRecorder records what a store does.
type historyRecorder struct {
	*testing.T
	*Instance
	ctx   context.Context
	rng   *rand.Rand
	start time.Time
	lanes []shard.Lane
	at    shard.Cursor
	made  int
	// gate is the outcome of the last operation that moved it.
	gate *shard.Gate
	// last has the host of each claim, from the newest outcome.
	last  map[string]string
	lines []string
}

func recordHistory(t *testing.T, seed uint64, b Backend, operations *int) []string {
	t.Helper()
	const steps, hosts, lanes = 120, 4, 2
	i := b.Open(t)
	defer func() {
		if err := i.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	}()
	s := &historyRecorder{T: t, Instance: i, ctx: t.Context(), rng: rand.New(rand.NewPCG(seed, 11)), at: shard.Cursor{}, last: map[string]string{}}
	var err error
	if s.start, err = i.Now(s.ctx); err != nil {
		t.Fatal(err)
	}
	for n := range lanes {
		l, err := i.OpenLane(s.ctx, fmt.Sprintf("replica-%d", n))
		if err != nil {
			t.Fatal(err)
		}
		s.lanes = append(s.lanes, l)
	}
	for n := range steps {
		var ops []shard.Op
		if n < hosts {
			ops = append(ops, shard.Op{PutHost: NewHost(n, 12)})
		}
		for range 1 + s.rng.IntN(4) {
			ops = append(ops, s.operation(n, hosts)...)
		}
		*operations += len(ops)
		a, err := s.lanes[s.rng.IntN(lanes)].Apply(s.ctx, ops)
		s.writeLine(fmt.Sprintf("step %d", n), a.Outcomes, err)
		for _, o := range a.Outcomes {
			if o.Gate != nil {
				s.gate = o.Gate
			}
			if o.Claim != nil {
				s.last[o.Claim.ClaimID] = o.Claim.HostUUID
			}
		}
		s.readJournal(n)
		if s.rng.IntN(8) == 0 {
			s.Advance(time.Duration(1+s.rng.IntN(6)) * grain)
		}
	}
	return s.lines
}

// readJournal follows the journal, and sometimes makes other reads.
func (s *historyRecorder) readJournal(step int) {
	entries, at, err := s.Tail(s.ctx, s.at, 100)
	for i := range entries {
		e := &entries[i]
		e.Lane.Incarnation = 0 // each store counts incarnations its own way
		slices.SortFunc(e.Changes, func(a, b shard.Change) int { return strings.Compare(plain(a), plain(b)) })
		s.writeLine("journal", e, nil)
	}
	if err != nil {
		s.writeLine("journal", nil, err)
	} else {
		s.at = at
	}
	switch s.rng.IntN(6) {
	case 0:
		rows, at, err := LoadRows(s.ctx, s)
		if err != nil {
			s.Fatalf("Load: %v", err)
		}
		for _, w := range rows.Check() {
			s.Error(w)
		}
		s.writeLine("rows", []any{rows.Hosts, rows.Usages, rows.Claims, rows.Pins, rows.Gates, rows.Namespaces, rows.AdminStates, rows.Names, len(at)}, nil)
	case 1:
		due, err := s.Due(s.ctx, 1000)
		slices.SortFunc(due, func(a, b shard.ClaimRef) int { return strings.Compare(a.ClaimID, b.ClaimID) })
		s.writeLine("due", due, err)
	case 2:
		q := shard.ClaimQuery{Ended: s.rng.IntN(2) == 0, Limit: 1 + s.rng.IntN(5)}
		switch s.rng.IntN(4) {
		case 0:
			q.HostUUID = HostID(s.rng.IntN(4))
		case 1:
			q.ConsumerUUIDs = []string{ConsumerID(s.rng.IntN(s.made + 1)), ConsumerID(s.rng.IntN(s.made + 1))}
		case 2:
			q.ProjectID = "project-1"
		}
		if s.rng.IntN(2) == 0 {
			q.After = ClaimID(s.rng.IntN(s.made + 1))
		}
		p, err := s.FindClaims(s.ctx, q)
		s.writeLine("found", p, err)
	case 3:
		if step%5 == 0 {
			now, err := s.Now(s.ctx)
			if err != nil {
				s.Fatalf("Now: %v", err)
			}
			// Half a grain keeps the limit away from every time written.
			s.writeLine("trim", nil, s.Trim(s.ctx, now.Add(-grain/2-time.Duration(s.rng.IntN(3))*grain)))
		}
	}
}

// operation makes an operation that is likely to have an effect, or two that belong together.
func (s *historyRecorder) operation(step, hosts int) []shard.Op {
	rng := s.rng
	n := rng.IntN(s.made + 1)
	if rng.IntN(2) == 0 {
		n = max(0, s.made-rng.IntN(5))
	}
	ref := Ref(n)
	ttl := time.Duration(2*(1+rng.IntN(5))) * grain
	group := GroupID(rng.IntN(3))
	switch rng.IntN(29) {
	case 0, 1:
		return []shard.Op{{Confirm: ref}}
	case 22, 23:
		p := putFacts(rng.IntN(hosts+1), []string{"cinder", "neutron"}[rng.IntN(2)], []string{"", `{}`, `{"a":1}`}[rng.IntN(3)])
		p.IfGeneration = []int64{0, 0, -1, 3}[rng.IntN(4)]
		p.AsOf = []int64{0, 0, 0, 3, 30, 300}[rng.IntN(6)]
		return []shard.Op{{PutFacts: p}}
	case 2, 3:
		return []shard.Op{{Release: ref}}
	case 4:
		ref.PendingOnly = true
		return []shard.Op{{Release: ref}}
	case 5:
		return []shard.Op{{Expire: ref}}
	case 6:
		return []shard.Op{{Pin: &shard.NewPin{GroupUUID: group, ServiceHost: ServiceHost(rng.IntN(hosts)), ClaimID: ref.ClaimID, TTL: ttl}}}
	case 7:
		return []shard.Op{{Unpin: &shard.Unpin{GroupUUID: group, ClaimID: ref.ClaimID}}}
	case 8:
		to := rng.IntN(hosts)
		return []shard.Op{{Swap: &shard.Swap{
			ClaimID: ref.ClaimID, ConsumerUUID: ref.ConsumerUUID, HostUUID: HostID(to), TTL: ttl,
			Allocations: []shard.Used{{ProviderUUID: HostID(to), ResourceClass: Class, Amount: 1 + rng.Int64N(3)}},
		}}}
	case 9:
		return []shard.Op{{Transfer: &shard.Transfer{ClaimID: ref.ClaimID, ConsumerUUID: ref.ConsumerUUID, ToConsumer: ConsumerID(500_000 + rng.IntN(4))}}}
	case 10:
		ref.Attempt = fmt.Sprint("attempt-", rng.IntN(2))
		return []shard.Op{{TakeOver: ref}}
	case 11:
		s.made++
		c := NewClaim(s.made, rng.IntN(hosts), 1)
		c.ConsumerUUID, c.Moves, c.TTL = ref.ConsumerUUID, ref.ClaimID, ttl
		return []shard.Op{{Claim: c}, {Confirm: &shard.ClaimRef{ClaimID: c.ClaimID, ConsumerUUID: c.ConsumerUUID}}}
	case 12:
		h := rng.IntN(hosts)
		p := NewHost(h, 8+rng.Int64N(8))
		p.Host.StateVersion = uint64(step + 2)
		p.Host.Disabled = rng.IntN(4) == 0
		for range rng.IntN(3) {
			id := ConsumerID(rng.IntN(s.made + 3))
			if slices.ContainsFunc(p.Instances, func(i shard.Instance) bool { return i.UUID == id }) {
				continue
			}
			p.Instances = append(p.Instances, shard.Instance{
				UUID: id, ProjectID: "project-2", UserID: "user-2",
				Allocations: []shard.Used{{ProviderUUID: HostID(h), ResourceClass: Class, Amount: 1 + rng.Int64N(2)}},
			})
		}
		return []shard.Op{{PutHost: p}}
	case 20:
		m := &shard.MoveGate{State: []shard.GateState{shard.GateLegacy, shard.GateShadow, shard.GateNative, shard.GateNative}[rng.IntN(4)], Reason: "by chance", Falls: rng.Int32N(2)}
		if s.gate != nil {
			m.Revision = s.gate.Revision
		}
		return []shard.Op{{MoveGate: m}}
	case 21:
		h := rng.IntN(hosts)
		p := NewHost(h, 10+rng.Int64N(2))
		p.Host.Imported, p.Host.BootID, p.Host.StateVersion = true, "import-1", uint64(step+2)
		if n := rng.IntN(3); n > 0 {
			p.Host.Providers[0].Inventories[0].AllocationRatio = float64(n)
			p.Host.Aggregates = []shard.Aggregate{{UUID: GroupID(n), Name: "rack"}}
		}
		p.Instances = []shard.Instance{{
			UUID: ConsumerID(rng.IntN(s.made + 3)), ProjectID: "project-3", UserID: "user-3",
			Allocations: []shard.Used{{ProviderUUID: HostID(h), ResourceClass: Class, Amount: 1}},
		}}
		return []shard.Op{{PutHost: p}}
	case 24, 25:
		j := rejects(n, rng.IntN(hosts), uint64(step+1))
		if rng.IntN(3) == 0 {
			j = aborts(n, rng.IntN(hosts), uint64(step+1))
		}
		if held := s.last[ref.ClaimID]; held != "" && rng.IntN(4) > 0 {
			j.HostUUID = held
		}
		if rng.IntN(3) == 0 {
			j.Verdict = accepts(n, 0, uint64(step+1)).Verdict
		} else {
			j.End = rng.IntN(3) == 0
		}
		return []shard.Op{{RecordVerdict: j}}
	case 26, 27:
		switch rng.IntN(7) {
		case 6:
			return []shard.Op{{SetAdminState: &shard.SetAdminState{HostUUID: HostID(rng.IntN(hosts + 1)), State: shard.ConditionEnabled, EndsNova: true}}}
		case 0:
			return []shard.Op{{SetSilent: &shard.SetSilent{HostUUID: HostID(rng.IntN(hosts + 1)), Silent: rng.IntN(3) > 0}}}
		case 1, 2:
			p := setNova(rng.IntN(hosts+1), []shard.ConditionState{"", shard.ConditionDisabled, shard.ConditionForcedDown, shard.ConditionSilent}[rng.IntN(4)])
			if at := rng.IntN(4); at > 0 {
				p.At = time.Unix(int64(at), 0).UTC()
			}
			return []shard.Op{{SetNovaState: p}}
		}
		p := setAdmin(rng.IntN(hosts+1), []shard.ConditionState{shard.ConditionEnabled, shard.ConditionDisabled, shard.ConditionMaintenance, shard.ConditionForcedDown}[rng.IntN(4)])
		if p.State == shard.ConditionMaintenance && rng.IntN(4) > 0 {
			p.For = time.Duration(2*(1+rng.IntN(3))) * grain
		}
		p.AsOf = []int64{0, 0, 0, 3, 30, 300}[rng.IntN(6)]
		return []shard.Op{{SetAdminState: p}}
	case 28:
		return []shard.Op{{EndMaintenance: &shard.EndMaintenance{HostUUID: HostID(rng.IntN(hosts + 1))}}}
	case 13, 14:
		s.made++
		c := NewClaim(s.made, rng.IntN(hosts), 1)
		c.TTL, c.Attempt = ttl, "attempt-0"
		c.Group = &shard.Group{UUID: group, Policy: []string{"anti-affinity", "affinity", "soft-anti-affinity"}[rng.IntN(3)], MaxPerHost: 1 + rng.Int32N(2), Members: []string{ref.ConsumerUUID}}
		return []shard.Op{{Claim: c}}
	}
	s.made++
	c := NewClaim(s.made, rng.IntN(hosts), 1+rng.Int64N(4))
	c.TTL = ttl
	if rng.IntN(6) == 0 {
		c.ConsumerUUID = ref.ConsumerUUID
	}
	return []shard.Op{{Claim: c}}
}

var moment = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}(\.[0-9]+)?(Z| \+0000 UTC)`)

func plain(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // JSON can encode every row
	}
	return string(b)
}

// writeLine records a line. It writes each time as grains since the start.
func (s *historyRecorder) writeLine(what string, v any, err error) {
	s.Helper()
	text := moment.ReplaceAllStringFunc(plain(v), func(m string) string {
		at, err := time.Parse(time.RFC3339Nano, m)
		if err != nil {
			at, err = time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", m)
		}
		if err != nil || at.IsZero() {
			return "never"
		}
		if at.Before(s.start.Add(-time.Hour)) {
			return at.UTC().Format(time.RFC3339) // a fixed time that the test chose
		}
		return fmt.Sprintf("T%d", at.Sub(s.start).Round(grain)/grain)
	})
	// Stores may differ between an empty value and none.
	text = strings.NewReplacer("[]", "null", "{}", "null", `""`, "null").Replace(text)
	if err != nil {
		text = fmt.Sprintf("error %v", err)
	}
	s.lines = append(s.lines, what+": "+text)
}
