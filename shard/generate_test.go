package shard

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"
)

var small = []string{"0", "1", "2", "3", "4", "5", "6", "7"}

func genAllocations(host string) *rapid.Generator[[]Used] {
	return rapid.Custom(func(t *rapid.T) []Used {
		as := []Used{{host, "VCPU", rapid.Int64Range(1, 5).Draw(t, "vcpu")}}
		if rapid.SampledFrom(small).Draw(t, "gpu?") == "7" {
			as = append(as, Used{"gpu-" + host, "VGPU", rapid.Int64Range(1, 2).Draw(t, "vgpu")})
		}
		return as
	})
}

// genAttempt gives either no attempt or one of two.
func genAttempt(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "a", "a", "b"}).Draw(t, "attempt")
}

func genOp(hosts, consumers, claims int) *rapid.Generator[Op] {
	host := rapid.SampledFrom(small[:hosts])
	consumer := rapid.Map(rapid.SampledFrom(small[:consumers]), func(s string) string { return "i" + s })
	claimID := rapid.Map(rapid.SampledFrom(small[:claims]), func(s string) string { return "c" + s })
	return rapid.Custom(func(t *rapid.T) Op {
		// Most operations name the claim's own consumer.
		id := claimID.Draw(t, "claim")
		of := "i" + string(id[1]%byte(consumers)+'0')
		if rapid.SampledFrom(small).Draw(t, "stranger") == "7" {
			of = consumer.Draw(t, "consumer")
		}
		ref := &ClaimRef{ClaimID: id, ConsumerUUID: of}
		switch rapid.SampledFrom([]string{
			"claim", "claim", "claim", "claim", "claim", "claim", "expire", "expire", "confirm", "confirm", "release", "put", "pin", "unpin",
			"swap", "swap", "transfer", "place", "place", "place", "keep", "keep", "import", "import", "gate", "judge", "judge", "admin", "admin", "end", "nova", "silent",
		}).Draw(t, "op") {
		case "place":
			return Op{WritePlacement: genWrite(t, host, consumer)}
		case "judge":
			v := Verdict{Outcome: VerdictOK, BootID: rapid.SampledFrom(small[:2]).Draw(t, "boot"), Version: rapid.Uint64Range(1, 9).Draw(t, "version")}
			end := false
			if rapid.SampledFrom(small).Draw(t, "rejects") > "1" {
				v.Outcome, v.Reason = VerdictRejected, rapid.SampledFrom([]string{"NO_ROOM", "NO_ROOM", "NO_NUMA", ReasonAborted, ReasonAborted}).Draw(t, "reason")
				end = rapid.SampledFrom(small).Draw(t, "end") > "5"
			}
			return Op{RecordVerdict: &RecordVerdict{ClaimID: id, HostUUID: host.Draw(t, "host"), Verdict: v, End: end}}
		case "admin":
			p := &SetAdminState{HostUUID: host.Draw(t, "host"), Reason: "why", By: "me", State: rapid.SampledFrom([]ConditionState{
				ConditionEnabled, ConditionEnabled, ConditionDisabled, ConditionMaintenance, ConditionMaintenance, ConditionForcedDown,
			}).Draw(t, "state")}
			if p.State == ConditionMaintenance {
				switch s := time.Duration(rapid.IntRange(0, 30).Draw(t, "s")) * time.Second; {
				case rapid.Bool().Draw(t, "until?"):
					p.Until = time.Unix(1000, 0).UTC().Add(5 * s)
				default:
					p.For = s
				}
			}
			p.EndsNova = p.State == ConditionEnabled && rapid.Bool().Draw(t, "ends?")
			p.AsOf = rapid.SampledFrom([]int64{0, 1, 5}).Draw(t, "as of") // nameGenerations sets the generation
			return Op{SetAdminState: p}
		case "nova":
			p := &SetNovaState{HostUUID: host.Draw(t, "host"), State: rapid.SampledFrom([]ConditionState{"", "", ConditionDisabled, ConditionForcedDown, ConditionSilent}).Draw(t, "state")}
			if p.State == ConditionDisabled || p.State == ConditionForcedDown {
				p.Reason = "why"
			}
			if at := rapid.SampledFrom([]int{0, 0, 1, 2, 3, 1000}).Draw(t, "at"); at > 0 { // 1000: a wrong clock
				p.At = time.Unix(1000, 0).UTC().Add(time.Duration(at) * 10 * time.Second)
			}
			return Op{SetNovaState: p}
		case "silent":
			return Op{SetSilent: &SetSilent{HostUUID: host.Draw(t, "host"), Silent: rapid.Bool().Draw(t, "silent")}}
		case "end":
			return Op{EndMaintenance: &EndMaintenance{HostUUID: host.Draw(t, "host")}}
		case "gate":
			// asItIs sets the revision.
			return Op{MoveGate: &MoveGate{State: rapid.SampledFrom([]GateState{GateLegacy, GateShadow, GateNative, GateNative}).Draw(t, "gate"), Reason: rapid.StringMatching("[a-z]{4}").Draw(t, "reason")}}
		case "import":
			h := host.Draw(t, "host")
			p := &PutHost{Host: Host{
				UUID: h, ServiceHost: "host-" + h, Imported: true, Facts: genFacts(t),
				BootID: rapid.SampledFrom(small[:2]).Draw(t, "boot"), StateVersion: rapid.Uint64Range(1, 9).Draw(t, "version"),
				Providers: []Provider{{UUID: h, Inventories: []Inventory{{
					ResourceClass: "VCPU", Total: rapid.SampledFrom([]int64{8, 8, 12}).Draw(t, "total"), MinUnit: 1, MaxUnit: 9, StepSize: 1, AllocationRatio: 1,
					Unaccounted: rapid.Int64Range(0, 3).Draw(t, "unaccounted"),
				}}}},
			}}
			for _, i := range rapid.SliceOfNDistinct(consumer, 0, 3, rapid.ID).Draw(t, "instances") {
				p.Instances = append(p.Instances, Instance{UUID: i, Allocations: genAllocations(h).Draw(t, "allocations")})
			}
			return Op{PutHost: p}
		case "put":
			h := host.Draw(t, "host")
			p := &PutHost{Host: Host{
				UUID: h, ServiceHost: "host-" + h, Facts: genFacts(t), Disabled: rapid.SampledFrom(small).Draw(t, "disabled") == "7",
				BootID: rapid.SampledFrom(small[:2]).Draw(t, "boot"), StateVersion: rapid.Uint64Range(1, 9).Draw(t, "version"),
				Providers: []Provider{{UUID: h, Inventories: []Inventory{{
					ResourceClass: "VCPU", Total: rapid.SampledFrom([]int64{0, 4, 8, 12, 16}).Draw(t, "total"), Reserved: rapid.Int64Range(0, 2).Draw(t, "reserved"),
					MinUnit: 1, MaxUnit: rapid.SampledFrom([]int64{1, 4, 9, 9}).Draw(t, "max"), StepSize: rapid.SampledFrom([]int64{1, 1, 1, 2}).Draw(t, "step"),
					AllocationRatio: rapid.SampledFrom([]float64{0.5, 1, 1.5}).Draw(t, "ratio"),
				}}}},
			}}
			if rapid.Bool().Draw(t, "gpu?") {
				p.Host.Providers = append(p.Host.Providers, Provider{UUID: "gpu-" + h, ParentUUID: h, Inventories: []Inventory{
					{ResourceClass: "VGPU", Total: 2, MinUnit: 1, MaxUnit: 2, StepSize: 1, AllocationRatio: 1},
				}})
			}
			for _, i := range rapid.SliceOfNDistinct(consumer, 0, 3, rapid.ID).Draw(t, "instances") {
				p.Instances = append(p.Instances, Instance{UUID: i, Allocations: genAllocations(h).Draw(t, "allocations")})
			}
			if rapid.Bool().Draw(t, "over?") {
				over := rapid.SampledFrom([]string{"", "0", "1", "start"}).Draw(t, "over")
				p.ExpectedBootID = &over
			}
			if rapid.SampledFrom(small).Draw(t, "unknown") > "4" {
				p.Host.InstancesUnknown, p.Instances = true, nil
			}
			return Op{PutHost: p}
		case "claim":
			h := host.Draw(t, "host")
			n := &NewClaim{
				ClaimID: id, ConsumerUUID: of, HostUUID: h, TTL: time.Duration(rapid.IntRange(1, 30).Draw(t, "ttl")) * time.Second,
				Allocations: genAllocations(h).Draw(t, "allocations"), Attempt: genAttempt(t), Guest: genGuest(t),
			}
			if rapid.Bool().Draw(t, "group?") {
				n.Group = &Group{
					UUID:       rapid.SampledFrom([]string{"g0", "g1"}).Draw(t, "group"),
					Policy:     rapid.SampledFrom([]string{"affinity", "anti-affinity", "anti-affinity", "soft-affinity"}).Draw(t, "policy"),
					MaxPerHost: rapid.Int32Range(0, 2).Draw(t, "limit"),
					Members:    rapid.SliceOfNDistinct(consumer, 0, 2, rapid.ID).Draw(t, "members"),
				}
			}
			switch rapid.SampledFrom(small).Draw(t, "moves?") {
			case "5", "6":
				// Another claim of the same consumer.
				n.Moves = "c" + string((id[1]-'0'+byte(consumers))%byte(2*consumers)+'0')
			case "7":
				n.Moves = claimID.Draw(t, "moves")
			}
			if n.Moves == id {
				n.Moves = ""
			}
			return Op{Claim: n}
		case "swap":
			h := host.Draw(t, "host")
			return Op{Swap: &Swap{
				ClaimID: id, ConsumerUUID: of, HostUUID: h, Allocations: genAllocations(h).Draw(t, "allocations"),
				TTL: time.Duration(rapid.IntRange(1, 30).Draw(t, "ttl")) * time.Second,
			}}
		case "transfer":
			return Op{Transfer: &Transfer{ClaimID: id, ConsumerUUID: of, ToConsumer: consumer.Draw(t, "to")}}
		case "confirm":
			if ref.Reinstate = rapid.Bool().Draw(t, "reinstate"); ref.Reinstate && rapid.Bool().Draw(t, "lease") {
				ref.Lease = &time.Time{} // nameLeases sets the lease
			}
			return Op{Confirm: ref}
		case "release":
			ref.PendingOnly, ref.Attempt = rapid.Bool().Draw(t, "pending only"), genAttempt(t)
			if rapid.Bool().Draw(t, "unchanged") {
				ref.Unchanged = &time.Time{} // nameLeases sets the time
			}
			return Op{Release: ref}
		case "keep":
			ref.Attempt = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "kept by")
			return Op{TakeOver: ref}
		case "expire":
			return Op{Expire: ref}
		case "pin":
			return Op{Pin: &NewPin{
				GroupUUID: "g0", ServiceHost: "host-" + host.Draw(t, "host"), ClaimID: id,
				TTL: time.Duration(rapid.IntRange(1, 30).Draw(t, "ttl")) * time.Second,
			}}
		default:
			return Op{Unpin: &Unpin{GroupUUID: "g0", ClaimID: id}}
		}
	})
}

// asItIs sets the gate's revision in operations that move it: mostly the current one, sometimes the
// one before.
func asItIs(t *rapid.T, g *Gate, ops []Op) {
	revision := int64(0)
	if g != nil {
		revision = g.Revision
	}
	for _, op := range ops {
		if op.MoveGate == nil {
			continue
		}
		op.MoveGate.Revision = revision
		if rapid.SampledFrom(small).Draw(t, "late") == "7" {
			op.MoveGate.Revision = max(0, revision-1)
		}
	}
}

// nameLeases sets the times that operations name. Half of the confirms with a lease get the claim's
// own lease. Most of the releases with Unchanged get the time of the claim's last write.
func nameLeases(t *rapid.T, claims map[string]*Claim, ops []Op) {
	for _, op := range ops {
		if ref := op.Release; ref != nil && ref.Unchanged != nil {
			if c := claims[ref.ClaimID]; c != nil && rapid.SampledFrom(small).Draw(t, "changed") < "6" {
				*ref.Unchanged = c.UpdatedAt
			}
		}
		if op.Confirm == nil || op.Confirm.Lease == nil {
			continue
		}
		if c := claims[op.Confirm.ClaimID]; c != nil && rapid.Bool().Draw(t, "own lease") {
			*op.Confirm.Lease = c.ExpiresAt
		}
	}
}

// nameMoves makes most writes of two consumers such as Nova sends for a move: the second gets what the first holds.
func nameMoves(t *rapid.T, claims map[string]*Claim, ops []Op) {
	for _, op := range ops {
		if op.WritePlacement == nil || len(op.WritePlacement.Consumers) < 2 || rapid.IntRange(0, 3).Draw(t, "no move") == 0 {
			continue
		}
		from, to := &op.WritePlacement.Consumers[0], &op.WritePlacement.Consumers[1]
		var held []RootAllocations
		for _, id := range slices.Sorted(maps.Keys(claims)) {
			c := claims[id]
			if c.State.Live() && c.ConsumerUUID == from.UUID && len(c.Allocations) > 0 &&
				!slices.ContainsFunc(held, func(r RootAllocations) bool { return r.HostUUID == c.HostUUID }) {
				held = append(held, RootAllocations{HostUUID: c.HostUUID, Allocations: c.Allocations})
			}
		}
		if len(held) > 0 {
			from.Allocations, to.Allocations = nil, held
			from.AnyGeneration, to.AnyGeneration = true, true
		}
	}
}

// dateStates sets InstancesAt in some host states: about the time of a claim's last write, or up to
// 30 s ago. InstancesAt has no effect in an agent's state.
func dateStates(t *rapid.T, now time.Time, claims map[string]*Claim, ops []Op) {
	ids := slices.Sorted(maps.Keys(claims))
	for _, op := range ops {
		if op.PutHost == nil || rapid.Bool().Draw(t, "undated") {
			continue
		}
		if len(ids) > 0 && rapid.Bool().Draw(t, "of a claim") {
			at := claims[rapid.SampledFrom(ids).Draw(t, "whose")].UpdatedAt
			op.PutHost.InstancesAt = at.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "about")) * time.Microsecond)
			continue
		}
		op.PutHost.InstancesAt = now.Add(-time.Duration(rapid.IntRange(0, 30_000).Draw(t, "ms ago")) * time.Millisecond)
	}
}

// nameGenerations sets AsOf in the operations that have it: to the host's generation now, or before
// an earlier batch. known keeps these generations.
func nameGenerations(t *rapid.T, w *world, o *oracle, known map[string]int64, ops []Op) {
	for _, host := range small[:3] {
		if known[host] != 0 && rapid.Bool().Draw(t, "not looked") {
			continue
		}
		known[host], o.asOf[host] = 1, o.writes[host]
		if h := w.hosts[host]; h != nil {
			known[host] = h.Generation
		}
		if u := w.usages[host]; u != nil {
			known[host] = max(known[host], u.Generation)
		}
	}
	for _, op := range ops {
		if op.SetAdminState != nil && op.SetAdminState.AsOf > 0 {
			op.SetAdminState.AsOf = known[op.SetAdminState.HostUUID]
		}
	}
}

// startHosts registers hosts of 12 VCPU.
func startHosts(n int) []Op {
	var ops []Op
	for _, h := range small[:n] {
		ops = append(ops, Op{PutHost: &PutHost{Host: Host{
			UUID: h, ServiceHost: "host-" + h, BootID: "start", StateVersion: 1, Facts: devices(3, 1),
			Providers: []Provider{{UUID: h, Inventories: []Inventory{
				{ResourceClass: "VCPU", Total: 12, MinUnit: 1, MaxUnit: 12, StepSize: 1, AllocationRatio: 1},
			}}},
		}}})
	}
	return ops
}

// kindOf is the name of the field that an operation sets.
func kindOf(op Op) string {
	v := reflect.ValueOf(op)
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			return v.Type().Field(i).Name
		}
	}
	return ""
}
