package cell

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// outOfService are reports of five hosts: up, disabled, forced down, silent, and disabled and silent.
func outOfService(gateway string) *cellv1.ReportLegacyRequest {
	req := legacyOf(gateway, 66, 0, 1, 2, 3, 4)
	s := req.GetServices()
	s[1].Disabled, s[1].DisabledReason = true, "HW failure"
	s[2].ForcedDown, s[2].Up = true, false
	s[3].Up = false
	s[4].Disabled, s[4].Up = true, false
	return req
}

var outWhy = map[string]int32{
	"ComputeFilter: disabled in Nova: HW failure": 1, "ComputeFilter: forced down in Nova": 1,
	"ComputeFilter: its nova-compute is down": 1, "ComputeFilter: disabled in Nova": 1,
}

// told reports and waits until what it says of hosts is written.
func (r *replica) told(req *cellv1.ReportLegacyRequest) {
	r.t.Helper()
	r.reportLegacy(req)
	synctest.Wait()
}

// claimAt is a claim of a host that was chosen under the first gate.
func claimAt(host int) *cellv1.ClaimOp {
	op := newClaim("new", 1, host, 1)
	op.GetClaim().GateEpoch = 1
	return op
}

func TestHostsThatNovaHasOutOfServiceAreProposedToNobody(t *testing.T) {
	for _, state := range []cellgatev1.Gate_State{shadowState, nativeState} {
		t.Run(state.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, newStore(t))
				for n := range 5 {
					r.register(plainState(n, 8))
				}
				r.pin(state)
				q := query(1)
				q.Shadow = state == shadowState
				if p := r.propose(q); p.GetPassed() != 5 {
					t.Fatalf("before the report: %v", p)
				}
				r.told(outOfService("g1"))
				if p := r.propose(q); p.GetPassed() != 1 || !maps.Equal(r.rejected(q), outWhy) {
					t.Errorf("%d hosts passed, rejected are %v", p.GetPassed(), r.rejected(q))
				}
				for n, up := range []bool{true, true, false, false, true} {
					if h := r.host(n); h.GetUp() != up || !h.GetEnabled() {
						t.Errorf("host %d is shown as %v", n, h)
					}
				}
				if s := r.totals(); s.GetHostsUp() != 1 || s.GetHostsWithheld() != 3 {
					t.Errorf("the totals are %v", s)
				}
				// Gateways have it of the rows themselves.
				if w := r.reportLegacy(outOfService("g1")).GetWithheld(); len(w) != 0 {
					t.Errorf("gateways are told %v", w)
				}
				if o := r.do(claimAt(1))[0].GetRefusal(); o.GetReason() != string(fault.NoValidHost) || o.GetDetail() != "disabled in Nova: HW failure" {
					t.Errorf("a claim is refused with %v", o)
				}

				// A report that says otherwise ends it.
				back := legacyOf("g1", 66, 0, 1, 2, 3)
				back.Revision = 2
				r.told(back)
				if p := r.propose(q); p.GetPassed() != 4 || r.rejected(q)["ComputeFilter: disabled in Nova"] != 1 {
					t.Errorf("then %d hosts passed, rejected are %v: the one without a service has its last word", p.GetPassed(), r.rejected(q))
				}
			})
		})
	}
}

func TestWhatNovaSaysOfHostsOutlivesGatewaysAndReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store, named("r1"))
		other := start(t, store, named("r2"))
		for n := range 5 {
			r.register(plainState(n, 8))
		}
		r.pin(nativeState)
		r.told(outOfService("g1"))
		check := func(r *replica, when string) {
			t.Helper()
			for n := range 5 {
				r.cell.live.heard(hostUUID(n))
			}
			synctest.Wait()
			if got := r.rejected(query(1)); !maps.Equal(got, outWhy) {
				t.Errorf("%s rejected are %v", when, got)
			}
		}
		time.Sleep(time.Second) // the other one's reading of the journal
		check(other, "at a replica that heard no report")
		// The gateway cannot read the rows, another has not read them yet, and then none is heard.
		r.told(&cellv1.ReportLegacyRequest{Gateway: "g1", Unreadable: "no route", RequiredVersion: 66})
		r.told(&cellv1.ReportLegacyRequest{Gateway: "g2", Look: true})
		check(r, "while the rows cannot be read")
		time.Sleep(time.Hour)
		check(r, "after an hour without gateways")
		check(start(t, store, named("r3")), "at a replica that starts")
	})
}

func TestOfSeveralReportsTheWorstCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		for n := range 5 {
			r.register(plainState(n, 8))
		}
		r.pin(nativeState)
		r.told(legacyOf("g1", 66, 0, 1, 2, 3, 4))
		r.told(outOfService("g2"))
		r.told(legacyOf("g1", 66, 0, 1, 2, 3, 4))
		if got := r.rejected(query(1)); !maps.Equal(got, outWhy) {
			t.Errorf("rejected are %v", got)
		}
		// What a gateway that is gone saw counts for a while only, when another sees otherwise.
		time.Sleep(keepReports + time.Second)
		r.told(legacyOf("g1", 66, 0, 1, 2, 3, 4))
		for n := range 5 {
			r.cell.live.heard(hostUUID(n))
		}
		synctest.Wait()
		if p := r.propose(query(1)); p.GetPassed() != 5 {
			t.Errorf("then rejected are %v", p.GetRejects())
		}
	})
}

func TestTheOperatorsWordAndNovasStandBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		for n := range 5 {
			r.register(plainState(n, 8))
		}
		r.pin(nativeState)
		r.operate(1, adminMaintenance)
		r.told(outOfService("g1"))
		keep := func(q *cellv1.SetAdminStateRequest) { q.KeepNova = true }
		both := "in maintenance: a bad disk; disabled in Nova: HW failure"
		if o := r.do(claimAt(1))[0].GetRefusal(); o.GetDetail() != both {
			t.Errorf("a claim is refused with %v", o)
		}
		if w := r.reportLegacy(outOfService("g1")).GetWithheld(); len(w) != 1 || w[0].GetWhy() != "in maintenance: a bad disk" {
			t.Errorf("gateways are told %v", w)
		}
		if a := r.operate(1, adminEnabled, keep).GetAdmin(); a.GetState() != adminEnabled || a.GetNova() != "disabled in Nova: HW failure" {
			t.Errorf("while Nova's rows are read, enabled is answered as %v", a)
		}
		if o := r.do(claimAt(1))[0].GetRefusal(); o.GetDetail() != "disabled in Nova: HW failure" {
			t.Errorf("a claim is refused then with %v", o)
		}
		// Once nobody reads them, the operator's word is what counts.
		time.Sleep(keepReports + time.Second)
		if a := r.operate(1, adminEnabled).GetAdmin(); a.GetState() != adminEnabled || a.GetNova() != "" {
			t.Errorf("when nobody reads them, enabled is answered as %v", a)
		}
		r.must(claimAt(1))
	})
}

// TestOnlyWhatChangedOfServicesIsWritten: reports come every 2 s, of up to 10,000 services.
func TestOnlyWhatChangedOfServicesIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		for n := range 5 {
			r.register(plainState(n, 8))
		}
		r.pin(nativeState)
		var written []string
		store.hook(func(ops []shard.Op, apply func() (shard.Applied, error)) (shard.Applied, error) {
			for _, op := range ops {
				if op.SetNovaState != nil {
					written = append(written, op.SetNovaState.HostUUID)
				}
			}
			return apply()
		})
		for range 3 {
			r.told(outOfService("g1"))
		}
		if want := []string{hostUUID(1), hostUUID(2), hostUUID(3), hostUUID(4)}; strings.Join(written, " ") != strings.Join(want, " ") {
			t.Errorf("written were %v, want %v", written, want)
		}
	})
}

// BenchmarkUnchangedServices: what a report costs that says nothing new of 10,000 hosts.
func BenchmarkUnchangedServices(b *testing.B) {
	const hosts = 10_000
	rows := newRows()
	watch := &novaWatch{gate: newGatekeeper(Config{}, time.Now), rows: rows}
	report := legacyReport{gateway: "g1"}
	for n := range hosts {
		h := &shard.Host{UUID: shardtest.HostID(n)}
		rows.hosts[h.UUID] = &hostRow{host: h}
		report.services = append(report.services, legacyService{host: h.UUID, up: true, nodes: []string{h.UUID}})
	}
	watch.gate.heard(report, 1, false)
	b.ReportAllocs()
	for b.Loop() {
		if c := watch.changes(); len(c) != 0 {
			b.Fatalf("%d changes", len(c))
		}
	}
}
