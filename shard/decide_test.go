package shard

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cellgate/internal/fault"
	"cellgate/internal/norace"
)

// TestI1I2I9_DecideIsTheNaiveRules compares Decide, which reads the rows of its read set alone,
// with the naive rules, which read everything. Usage is the sum of the live claims, and claims
// alone never exceed a capacity.
func TestI1I2I9_DecideIsTheNaiveRules(t *testing.T) {
	norace.Skip(t, norace.Pure)
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		o := newOracle()
		known := map[string]int64{}
		now := time.Unix(1000, 0).UTC()
		ops := genOp(3, 5, 8)
		for n := range rapid.IntRange(20, 60).Draw(t, "batches") {
			now = now.Add(time.Duration(rapid.IntRange(1, 10_000).Draw(t, "ms")) * time.Millisecond)
			batch := rapid.SliceOfN(ops, 1, 4).Draw(t, "batch")
			if n == 0 {
				batch = startHosts(3)
				if rapid.Bool().Draw(t, "trees of Placement") {
					batch = append(batch[:1], createRoots("1", "2")...)
				}
			}
			asItIs(t, w.gate, batch)
			nameLeases(t, w.claims, batch)
			nameMoves(t, w.claims, batch)
			dateStates(t, now, w.claims, batch)
			nameGenerations(t, w, o, known, batch)
			full := map[string]map[Used]bool{}
			for id := range o.hosts {
				full[id] = o.over(id)
			}
			d := Decide(now, w.read(ReadSetOf(batch)), batch)
			w.write(d.Changes)
			adopting := false
			for i, op := range batch {
				named := false
				if ref := op.Confirm; ref != nil && ref.Lease != nil && o.renewed[ref.ClaimID] {
					named = o.find(ref.ClaimID).State == Pending
				}
				over, wasAgents := false, false
				if p := op.PutHost; p != nil {
					old, known := o.hosts[p.Host.UUID]
					wasAgents = known && !old.Imported
				}
				if p := op.PutHost; p != nil && p.ExpectedBootID != nil && !p.Host.Imported {
					old := o.hosts[p.Host.UUID]
					over = !old.Imported && old.BootID == *p.ExpectedBootID && old.BootID != p.Host.BootID
				}
				got, want := answerOf(d.Outcomes[i]), o.step(now, op)
				if op.PutHost != nil || op.SetAdminState != nil && op.SetAdminState.EndsNova {
					adopting = true // an allocation ratio may change, too
				}
				// Decide makes up the ids of adopted claims.
				for _, made := range []string{"adopted", "allocated"} {
					if strings.HasPrefix(got.claim, made) && strings.HasPrefix(want.claim, made) {
						if got.kind == fault.AlreadyExists {
							// These ids also decide which of a consumer's two claims conflicts.
							for _, c := range o.live(got.consumer) {
								if c.HostUUID == got.host && strings.HasPrefix(c.ClaimID, made) {
									want = no(fault.AlreadyExists, c)
								}
							}
						}
						got.claim, want.claim = "", ""
						if made == "allocated" { // the id decides which of several claims is first
							got.host, want.host, got.from, want.from = "", "", "", ""
						}
					}
				}
				if op.Claim != nil && op.Claim.Moves != "" && got.kind == "" {
					seen["a claim that moves"]++
				}
				if named && got.kind == "" {
					seen["a later lease named, "+string(got.state)]++
				}
				if op.Confirm != nil && got.kind == "" && got.moves != "" {
					seen["confirmed a move"]++
				}
				if got != want {
					t.Fatalf("operation %d %+v: decided %+v (%+v), by the naive rules %+v", i, op, got, d.Outcomes[i].Refusal, want)
				}
				if got.left {
					seen["left to the agent"]++
				}
				if got.otherIncarnation != "" {
					seen["of another incarnation"]++
				}
				if over && got.otherIncarnation == "" {
					seen["over the incarnation that was named"]++
				}
				if got.held {
					seen["held while the tables speak"]++
				}
				if op.PutHost != nil && op.PutHost.Host.Imported && !got.left && wasAgents {
					seen["taken from the agent"]++
				}
				if got.followed {
					seen["follows Nova"]++
				}
				if got.same {
					seen["imported already"]++
				}
				if got.outdated {
					seen["an import of an older version"]++
				}
				if got.kept > 0 {
					seen["an import that is older than a claim"]++
				}
				if op.PutHost != nil && op.PutHost.Host.Imported && got.adopted+got.confirmed+got.released > 0 {
					seen["an import that moves claims"]++
				}
				seen[fmt.Sprintf("%s %s %s", kindOf(op), got.kind, got.filter)]++
				if op.WritePlacement != nil {
					seen["place "+string(got.reason)]++
					adopting = adopting || op.WritePlacement.Adopt || len(op.WritePlacement.Providers) > 0
				}
			}
			seen["a maintenance that ended"] += o.ended
			o.ended = 0
			checkWorld(t, w, o)
			for _, c := range w.claims {
				if c.TakesHardware() && c.Guest.Assigned == nil {
					seen["a report that leaves a claim without devices"]++
				}
			}
			if adopting {
				continue
			}
			for id := range o.hosts {
				for a := range o.over(id) {
					if !full[id][a] {
						t.Fatalf("I1: claims made host %s overfull with %+v", id, a)
					}
				}
			}
		}
	})
	for _, must := range []string{
		"Claim  ", "Claim ALREADY_EXISTS ", "Claim CLAIM_EXPIRED ", "Claim NO_VALID_HOST ResourceFilter",
		"Claim NO_VALID_HOST ServerGroupAffinityFilter", "Claim NO_VALID_HOST ServerGroupAntiAffinityFilter",
		"Claim NO_VALID_HOST ComputeFilter", "Confirm  ", "Confirm CLAIM_EXPIRED ", "Pin CONTENDED ", "PutHost  ",
		"Swap  ", "Swap NO_VALID_HOST ResourceFilter", "Swap ALREADY_EXISTS ", "Swap CLAIM_EXPIRED ",
		"Claim NO_VALID_HOST PciPassthroughFilter", "Swap NO_VALID_HOST PciPassthroughFilter", "a report that leaves a claim without devices",
		"Swap NO_VALID_HOST ServerGroupAntiAffinityFilter", "Swap NO_VALID_HOST ServerGroupAffinityFilter",
		"Transfer  ", "Transfer ALREADY_EXISTS ", "Transfer CLAIM_EXPIRED ", "Transfer NOT_FOUND ",
		"Release ALREADY_EXISTS ", "Release STALE_GENERATION ", "TakeOver  ", "TakeOver CLAIM_EXPIRED ", "TakeOver NOT_FOUND ",
		"a claim that moves", "confirmed a move", "a later lease named, PENDING", "a later lease named, CONFIRMED", "MoveGate  ", "MoveGate STALE_GENERATION ",
		"SetAdminState  ", "SetAdminState INVALID_REQUEST ", "SetAdminState STALE_GENERATION ", "EndMaintenance  ", "a maintenance that ended",
		"RecordVerdict  ", "Confirm CLAIM_REJECTED HostVerdict", "Claim CLAIM_REJECTED HostVerdict",
		"left to the agent", "held while the tables speak", "taken from the agent", "follows Nova", "imported already", "of another incarnation", "over the incarnation that was named", "an import that moves claims",
		"an import of an older version", "an import that is older than a claim",
		"place ", "place PROVIDER_NOT_FOUND", "place DUPLICATE_PROVIDER", "place PROVIDER_GENERATION", "place INVENTORY_IN_USE", "place PROVIDER_HAS_ALLOCATIONS",
		"place CONSUMER_GENERATION", "place CAPACITY_EXCEEDED", "place INVENTORY_MISSING", "place AGENT_TREE",
	} {
		if seen[must] == 0 {
			t.Errorf("no operation ended as %q: the generator does not reach it; it reached %v", must, seen)
		}
	}
}

// An import that is older than one claim ends another claim. Random operations reach this case only about three times
// in 3,000 checks. A late confirm without devices is as rare: a clause of the conformance suite tests it.
func TestDecide_ImportOlderThanOneOfTwoClaims_EndsTheOther(t *testing.T) {
	w, o := newWorld(), newOracle()
	begin := time.Unix(1000, 0).UTC()
	imported := func(version uint64, instances ...string) *PutHost {
		p := startHosts(1)[0].PutHost
		p.Host.Imported, p.Host.StateVersion = true, version
		for _, i := range instances {
			p.Instances = append(p.Instances, Instance{UUID: i, Allocations: []Used{{p.Host.UUID, "VCPU", 1}}})
		}
		return p
	}
	between := imported(3)
	between.InstancesAt = begin.Add(5 * time.Second)
	for i, step := range []struct {
		at   time.Duration
		put  *PutHost
		want answer
	}{
		{0, imported(1, "i1"), answer{adopted: 1}},
		{10 * time.Second, imported(2, "i1", "i2"), answer{same: true, adopted: 1}},
		{20 * time.Second, between, answer{same: true, released: 1, kept: 1}},
	} {
		ops, now := []Op{{PutHost: step.put}}, begin.Add(step.at)
		d := Decide(now, w.read(ReadSetOf(ops)), ops)
		w.write(d.Changes)
		got, naive := answerOf(d.Outcomes[0]), o.step(now, ops[0])
		if got != step.want || naive != step.want {
			t.Errorf("step %d: decided %+v, by the naive rules %+v, want %+v", i, got, naive, step.want)
		}
	}
	checkWorld(t, w, o)
}

// TestDecideABatchIsItsOperationsOneByOne: a batch writes the same rows as its operations one by
// one at the same time, and each row once. Decide replaces rows and never changes them. The same
// input gives the same decision.
func TestDecideABatchIsItsOperationsOneByOne(t *testing.T) {
	norace.Skip(t, norace.Pure)
	rapid.Check(t, func(t *rapid.T) {
		ops := genOp(2, 4, 6)
		w := newWorld()
		now := time.Unix(1000, 0).UTC()
		first := append(startHosts(2), rapid.SliceOfN(ops, 0, 20).Draw(t, "before")...)
		asItIs(t, nil, first)
		w.write(Decide(now, w.read(ReadSetOf(first)), first).Changes)
		before := dump(w)

		batch := rapid.SliceOfN(ops, 1, 8).Draw(t, "batch")
		asItIs(t, w.gate, batch)
		dateStates(t, now, w.claims, batch)
		now = now.Add(10 * time.Second)
		d := Decide(now, w.read(ReadSetOf(batch)), batch)
		if after := dump(w); after != before {
			t.Fatalf("Decide changed rows:\n%s\n%s", before, after)
		}
		if again := Decide(now, w.read(ReadSetOf(batch)), batch); !reflect.DeepEqual(d, again) {
			t.Fatalf("decided %+v, then %+v", d, again)
		}
		keys := map[string]bool{}
		for _, c := range d.Changes {
			k := fmt.Sprint(keyOf(c))
			if keys[k] {
				t.Fatalf("row %s is changed twice in %+v", k, d.Changes)
			}
			keys[k] = true
		}
		one := &world{maps.Clone(w.hosts), maps.Clone(w.usages), maps.Clone(w.claims), maps.Clone(w.pins), w.gate, maps.Clone(w.namespaces), maps.Clone(w.admins)}
		for i, op := range batch {
			single := []Op{op}
			s := Decide(now, one.read(ReadSetOf(single)), single)
			one.write(s.Changes)
			if got, want := answerOf(d.Outcomes[i]), answerOf(s.Outcomes[0]); got != want {
				t.Fatalf("operation %d: in the batch %+v, alone %+v", i, got, want)
			}
		}
		w.write(d.Changes)
		if a, b := dump(w), dump(one); a != b {
			t.Fatalf("the batch comes to\n%s\none by one\n%s", a, b)
		}
	})
}

func keyOf(c Change) rowKey {
	switch {
	case c.Host != nil:
		return rowKey{hostRow, c.Host.UUID}
	case c.Usage != nil:
		return rowKey{usageRow, c.Usage.HostUUID}
	case c.Claim != nil:
		return rowKey{claimRow, c.Claim.ClaimID}
	case c.Gate != nil:
		return rowKey{gateRow, ""}
	}
	if c.AdminState != nil {
		return rowKey{adminRow, c.AdminState.HostUUID}
	}
	return rowKey{pinRow, c.Pin.GroupUUID}
}

func TestCapacityRoundsDownAndDoesNotOverflow(t *testing.T) {
	for _, c := range []struct {
		total, reserved int64
		ratio           float64
		want            int64
	}{
		{8, 0, 1, 8},
		{8, 1, 1.5, 10},
		{1, 0, 0.5, 0},
		{0, 3, 0.5, -1},
		{MaxAmount, 0, 3.4e38, 1<<63 - 1},
		{0, MaxAmount, 3.4e38, -1 << 62},
		{100, 0, 1.1, 110},
	} {
		if got := (Inventory{Total: c.total, Reserved: c.reserved, AllocationRatio: c.ratio}).Capacity(); got != c.want {
			t.Errorf("(%d - %d) * %v is %d, want %d", c.total, c.reserved, c.ratio, got, c.want)
		}
	}
}

func TestFree_ReservedAboveTotal_BelowZeroAtAnyRatio(t *testing.T) {
	for _, ratio := range []float64{0.5, 1, 1e10, 3.4e38, 1e300} {
		i := Inventory{Reserved: 1, AllocationRatio: ratio, Unaccounted: MaxAmount}
		if got := i.Free(1); got >= 0 {
			t.Errorf("%v: %d are free", ratio, got)
		}
	}
}

func TestReadSetOf_AnyBatch_NamesEachRowOnce(t *testing.T) {
	got := ReadSetOf([]Op{
		{PutHost: &PutHost{Host: Host{UUID: "h1"}, Instances: []Instance{{UUID: "i1"}}}},
		{Claim: &NewClaim{ClaimID: "c1", ConsumerUUID: "i1", HostUUID: "h1", Group: &Group{UUID: "g1", Policy: "affinity", Members: []string{"i2"}}}},
		{Claim: &NewClaim{ClaimID: "c2", ConsumerUUID: "i3", HostUUID: "h2", Group: &Group{UUID: "g2", Policy: "soft-affinity", Members: []string{"i9"}}}},
		{Confirm: &ClaimRef{ClaimID: "c1", ConsumerUUID: "i1"}},
		{Release: &ClaimRef{ClaimID: "c3", ConsumerUUID: "i4"}},
		{Expire: &ClaimRef{ClaimID: "c4", ConsumerUUID: "i5"}},
		{Pin: &NewPin{GroupUUID: "g1"}},
		{Unpin: &Unpin{GroupUUID: "g3"}},
		{Swap: &Swap{ClaimID: "c5", ConsumerUUID: "i6", HostUUID: "h3"}},
		{Transfer: &Transfer{ClaimID: "c6", ConsumerUUID: "i7", ToConsumer: "i8"}},
		{PutFacts: &PutFacts{HostUUID: "h4", Namespace: "n"}},
		{RecordVerdict: &RecordVerdict{ClaimID: "c7", HostUUID: "h5"}},
		{SetAdminState: &SetAdminState{HostUUID: "h6"}},
		{EndMaintenance: &EndMaintenance{HostUUID: "h7"}},
		{SetNovaState: &SetNovaState{HostUUID: "h8"}},
		{SetSilent: &SetSilent{HostUUID: "h9"}},
		{WritePlacement: &WritePlacement{
			Providers: []ProviderWrite{{UUID: "p1", HostUUID: "h10", Parent: new("")}, {UUID: "p2", HostUUID: "h10", Parent: new("p3"), ParentHost: "h11"}},
			Consumers: []ConsumerWrite{{UUID: "i10", Allocations: []RootAllocations{{HostUUID: "h12"}}}},
		}},
		{PutName: &NameRef{ClassName, "CUSTOM_A"}},
		{},
	})
	want := ReadSet{
		Hosts: []string{"h1", "h2", "h3", "h4", "h6", "h7", "h8", "h9", "h10", "p1", "h11", "h12"}, Names: []NameRef{{ClassName, "CUSTOM_A"}}, Namespaces: []string{"h4"}, HostClaims: []string{"h1"}, Aligned: []string{"h1"}, Claims: []string{"c1", "c2", "c3", "c4", "c5", "c6", "c7"}, Landings: []Landing{{"c1", ""}, {"c5", "h3"}},
		Consumers: []string{"i1", "i2", "i3", "i5", "i6", "i7", "i8", "i10"}, Groups: []string{"g1"}, Pins: []string{"g1", "g3"}, Gate: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read set is %+v, want %+v", got, want)
	}
}

func TestRefusalsSayWhatDoesNotFit(t *testing.T) {
	w := newWorld()
	w.write([]Change{{Host: &Host{UUID: "h", ServiceHost: "s", Providers: []Provider{{UUID: "h", Inventories: []Inventory{
		{ResourceClass: "VCPU", Total: 4, MinUnit: 1, MaxUnit: 4, StepSize: 1, AllocationRatio: 1},
	}}}}}})
	ops := []Op{{Claim: &NewClaim{ClaimID: "c", ConsumerUUID: "i", HostUUID: "h", TTL: time.Second, Allocations: []Used{{"h", "VCPU", 5}}}}}
	r := Decide(time.Unix(1, 0), w.read(ReadSetOf(ops)), ops).Outcomes[0].Refusal
	if r == nil || r.Kind != fault.NoValidHost || r.Message != "5 VCPU on provider h of host s: more than max_unit" {
		t.Errorf("refusal is %+v", r)
	}
}
