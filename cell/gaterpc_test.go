package cell

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/cell/gate"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// legacyOf returns a report in which the services of the numbered hosts are up.
func legacyOf(gateway string, version int32, hosts ...int) *cellv1.ReportLegacyRequest {
	req := &cellv1.ReportLegacyRequest{Gateway: gateway, Revision: 1, RequiredVersion: 66, Unclaimed: &cellv1.UnclaimedInstances{SettledAt: timestamppb.New(time.Now().Add(1000 * time.Hour))}}
	for _, n := range hosts {
		req.Services = append(req.Services, &cellv1.LegacyService{
			Host: fmt.Sprintf("host-%05d", n), Version: version, Up: true, NodeUuids: []string{hostUUID(n)},
		})
	}
	return req
}

func (r *testCell) reportLegacy(req *cellv1.ReportLegacyRequest) *cellv1.ReportLegacyResponse {
	r.t.Helper()
	out, err := r.cells.ReportLegacy(context.Background(), req)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *testCell) pin(to cellgatev1.Gate_State) *cellgatev1.Gate {
	r.t.Helper()
	out, err := r.cells.PinGate(context.Background(), &cellv1.PinGateRequest{Pin: to, Reason: "a test", Who: "somebody", Force: true})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.GetGate()
}

const (
	legacyState = cellgatev1.Gate_LEGACY
	shadowState = cellgatev1.Gate_SHADOW
	nativeState = cellgatev1.Gate_NATIVE
)

func TestTheGateOfACellFromLegacyToNativeAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		a := r.register(plainState(1, 8))
		if p := r.propose(query(1)); p.GetGate() != cellgatev1.Gate_STATE_UNSPECIFIED || p.GetPassed() != 1 {
			t.Fatalf("without a gate: %v", p)
		}
		fine := legacyOf("g1", 66, 1)
		began := time.Now()
		until := func(to cellgatev1.Gate_State, most time.Duration) *cellgatev1.Gate {
			t.Helper()
			for from := time.Now(); ; {
				g := r.reportLegacy(fine).GetGate()
				if g.GetState() == to {
					return g
				}
				if time.Since(from) > most {
					t.Fatalf("after %v the gate is %v", most, g)
				}
				fine.Unchanged, fine.Services = true, nil
				time.Sleep(2 * time.Second)
				a.heartbeat()
			}
		}
		asked := func(gate cellgatev1.Gate_State, refused string) {
			t.Helper()
			p := r.propose(query(1))
			if p.GetGate() != gate || (p.GetPassed() == 1) != (refused == "") {
				t.Errorf("under %v: %v", gate, p)
			}
			if f := p.GetFailure(); refused != "" && (f.GetReason() != string(fault.CellUnavailable) || !strings.Contains(f.GetMessage(), refused)) {
				t.Errorf("it is refused with %v", f)
			}
		}
		g := until(legacyState, 0)
		if g.GetEpoch() != 1 || g.GetServices() != 1 || g.GetMinVersion() != 66 || g.GetRegistered() != 1 || g.GetHosts() != 1 {
			t.Errorf("the new gate is %v", g)
		}
		asked(legacyState, "no gateway has imported")
		g = until(shadowState, 2*time.Minute)
		if took := time.Since(began); took < time.Minute || g.GetEpoch() != 2 {
			t.Errorf("after %v it is %v", took, g)
		}
		asked(shadowState, "no gateway has imported")
		g = until(nativeState, 3*time.Minute)
		if g.GetEpoch() != 3 || len(g.GetWaitsFor()) != 0 {
			t.Errorf("it is %v", g)
		}
		asked(nativeState, "")

		// A report with an old service closes the gate at once.
		old := legacyOf("g1", 65, 1)
		old.Revision = 2
		g = r.reportLegacy(old).GetGate()
		if g.GetState() != legacyState || g.GetEpoch() != 4 || g.GetLaggingHosts() != 1 || g.GetLagging()[0].GetServiceVersion() != 65 ||
			!strings.Contains(g.GetReason(), "host-00001") {
			t.Errorf("with an old service it is %v", g)
		}
		asked(legacyState, "no gateway has imported")
		if n := r.metric("cellgate_cell_gate_moves_total", "legacy"); n != 2 {
			t.Errorf("%v moves to LEGACY were counted", n)
		}
		// The settle time is twice as long now.
		again := time.Now()
		fine = legacyOf("g1", 66, 1)
		fine.Revision = 3
		until(shadowState, 10*time.Minute)
		if took := time.Since(again); took < 2*time.Minute || took > 2*time.Minute+10*time.Second {
			t.Errorf("after a fall it took %v", took)
		}
	})
}

func TestAReportOfAnUnknownRevisionMovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		r.register(plainState(1, 8))
		r.pin(nativeState)
		r.pin(cellgatev1.Gate_STATE_UNSPECIFIED)
		req := legacyOf("g1", 65, 1)
		req.Unchanged, req.Services = true, nil
		if out := r.reportLegacy(req); !out.GetSendServices() || out.GetGate().GetState() != nativeState {
			t.Errorf("answered %v", out)
		}
		look := legacyOf("g1", 65, 1)
		look.Look = true
		if out := r.reportLegacy(look); out.GetSendServices() || out.GetGate().GetState() != nativeState {
			t.Errorf("a look is answered %v", out)
		}
		dark := &cellv1.ReportLegacyRequest{Gateway: "g1", Unreadable: "the database is gone", RequiredVersion: 66}
		if out := r.reportLegacy(dark); out.GetGate().GetState() != nativeState {
			t.Errorf("an unreadable table: %v", out)
		}
		if out := r.reportLegacy(legacyOf("g1", 66, 1)); out.GetSendServices() || out.GetGate().GetState() != nativeState {
			t.Errorf("the services: %v", out)
		}
		req.Unchanged = true
		if out := r.reportLegacy(req); out.GetSendServices() {
			t.Errorf("the same services again: %v", out)
		}
		// A gateway's report expires if the gateway stops reporting.
		time.Sleep(gate.KeepReports + time.Second)
		if out := r.reportLegacy(req); !out.GetSendServices() {
			t.Errorf("after a silence: %v", out)
		}
		if out := r.reportLegacy(legacyOf("g2", 65, 1)); out.GetGate().GetState() != legacyState {
			t.Errorf("another gateway's old service: %v", out)
		}
	})
}

func TestAGateThatIsNotThereIsNotLookedInto(t *testing.T) {
	r := start(t, newStore(t))
	req := legacyOf("g1", 66, 1)
	req.Look = true
	if out := r.reportLegacy(req); out.GetGate() != nil {
		t.Errorf("a look makes %v", out.GetGate())
	}
	if _, err := r.cells.PinGate(context.Background(), &cellv1.PinGateRequest{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("letting go of no gate: %v", err)
	}
}

// A gate keeps its state, and its pin if any, over a restart.
func TestAGateStaysOverARestart(t *testing.T) {
	for _, s := range []cellgatev1.Gate_State{legacyState, shadowState, nativeState} {
		for _, pinned := range []bool{true, false} {
			t.Run(fmt.Sprint(s, " pinned ", pinned), func(t *testing.T) {
				store := newStore(t)
				r := start(t, store)
				r.register(plainState(1, 8))
				r.reportLegacy(legacyOf("g1", 66, 1))
				before := r.pin(s)
				if !pinned {
					before = r.pin(cellgatev1.Gate_STATE_UNSPECIFIED)
				}
				r.stop()
				next := start(t, store)
				a := next.register(plainState(1, 8))
				a.heartbeat()
				req := legacyOf("g1", 66, 1)
				req.Look = true
				g := next.reportLegacy(req).GetGate()
				if g.GetState() != s || g.GetEpoch() != before.GetEpoch() || g.GetPin() != before.GetPin() || g.GetReason() != before.GetReason() || !g.GetSince().AsTime().Equal(before.GetSince().AsTime()) {
					t.Errorf("after the restart it is %v, was %v", g, before)
				}
				if p := next.propose(query(1)); (p.GetFailure() == nil) != (s == nativeState) || p.GetGate() != s {
					t.Errorf("proposed %v", p)
				}
			})
		}
	}
}

// Replicas that get the same report at once create one gate, and move it once.
func TestReplicasMoveOneGate(t *testing.T) {
	sharedShards(t, func(t *testing.T, open func() shard.Store) {
		const replicas = 3
		var all []*testCell
		for n := range replicas {
			all = append(all, start(t, open(), named(fmt.Sprintf("r%d", n+1))))
		}
		for _, r := range all {
			r.register(plainState(1, 8))
		}
		expect := func(version int32, want cellgatev1.Gate_State, epoch int64) {
			t.Helper()
			var wg sync.WaitGroup
			for n, r := range all {
				wg.Go(func() {
					req := legacyOf(fmt.Sprintf("g%d", n), version, 1)
					req.Revision = uint64(epoch)
					out, err := r.cells.ReportLegacy(context.Background(), req)
					if err != nil || out.GetGate().GetState() != want || out.GetGate().GetEpoch() != epoch {
						t.Errorf("replica %d: %v, %v; want %v, epoch %d", n, out.GetGate(), err, want, epoch)
					}
				})
			}
			wg.Wait()
		}
		// shown waits until every replica has read the gate's newest row.
		shown := func(g *cellgatev1.Gate) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, r := range all {
				for {
					out, err := r.cells.ReportLegacy(ctx, &cellv1.ReportLegacyRequest{Gateway: "looks", Look: true})
					if err != nil {
						t.Fatal(err)
					}
					if out.GetGate().GetEpoch() == g.GetEpoch() && out.GetGate().GetPin() == g.GetPin() {
						break
					}
				}
			}
		}
		expect(66, legacyState, 1)
		shown(all[0].pin(nativeState))
		let := all[1].pin(cellgatev1.Gate_STATE_UNSPECIFIED)
		if let.GetState() != nativeState || let.GetEpoch() != 2 {
			t.Fatalf("let go, it is %v", let)
		}
		shown(let)
		expect(65, legacyState, 3)
	})
}

func TestOneGatewayImportsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		asks := func(gateway string) bool {
			t.Helper()
			req := legacyOf(gateway, 65, 1)
			req.Importer = true
			out := r.reportLegacy(req)
			if d := out.GetImportFor(); d != nil && d.AsDuration() != gate.ImportLease {
				t.Errorf("to import for %v", d.AsDuration())
			}
			return out.GetImportFor() != nil
		}
		if !asks("g1") || asks("g2") {
			t.Error("the second to ask imports")
		}
		time.Sleep(3 * time.Second)
		if !asks("g1") {
			t.Error("who imports does not keep it")
		}
		time.Sleep(3 * time.Second)
		if asks("g2") {
			t.Error("another one imports within the lease")
		}
		time.Sleep(5 * time.Second)
		if !asks("g2") || asks("g1") {
			t.Error("after the lease the other one does not import")
		}
		r.pin(nativeState)
		if !asks("g2") || asks("g1") {
			t.Error("who imports does not go on in a NATIVE cell: its hosts follow Nova's aggregates")
		}
	})
}

// instanceOn is an instance with a VCPU of a host.
func instanceOn(host, consumer int) *agentv1.Instance {
	return &agentv1.Instance{InstanceUuid: consumerUUID(consumer), Usages: []*agentv1.Usage{
		{ProviderUuid: hostUUID(host), ResourceClass: "VCPU", Amount: 1},
	}}
}
