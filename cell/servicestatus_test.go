package cell

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/cell/gate"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
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

// writeStatus reports, and waits until the hosts' status is written.
func (r *testCell) writeStatus(req *cellv1.ReportLegacyRequest) {
	r.t.Helper()
	r.reportLegacy(req)
	synctest.Wait()
}

func claimAt(host int) *cellv1.ClaimOp { return newClaim("new", 1, host, 1) }

func TestHostsThatNovaHasOutOfServiceAreProposedToNobody(t *testing.T) {
	for _, state := range []cellgatev1.Gate_State{shadowState, nativeState} {
		t.Run(state.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, newStore(t))
				for n := range 5 {
					r.register(plainState(n, 8))
				}
				if r.pin(state); state == shadowState {
					first := legacyOf("g1", 66, 0, 1, 2, 3, 4)
					first.Importer = true
					r.reportLegacy(first)
					first.ImportedAge = durationpb.New(0)
					r.reportLegacy(first)
				}
				q := query(1)
				if p := r.propose(q); p.GetPassed() != 5 {
					t.Fatalf("before the report: %v", p)
				}
				r.writeStatus(outOfService("g1"))
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
				if o := r.do(claimAt(1))[0].GetRefusal(); o.GetReason() != string(fault.NoValidHost) || o.GetDetail() != "disabled in Nova: HW failure" {
					t.Errorf("a claim is refused with %v", o)
				}

				// A report without these states ends them.
				back := legacyOf("g1", 66, 0, 1, 2, 3)
				back.Revision = 2
				r.writeStatus(back)
				if p := r.propose(q); p.GetPassed() != 4 || r.rejected(q)[isUnknown] != 1 {
					t.Errorf("then %d hosts passed, rejected are %v: the one without a service is unknown", p.GetPassed(), r.rejected(q))
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
		r.writeStatus(outOfService("g1"))
		check := func(r *testCell, when string) {
			t.Helper()
			for n := range 5 {
				r.cell.live.NoteSeen(hostUUID(n))
			}
			synctest.Wait()
			if got := r.rejected(query(1)); !maps.Equal(got, outWhy) {
				t.Errorf("%s rejected are %v", when, got)
			}
		}
		time.Sleep(time.Second) // the other replica reads the journal
		check(other, "at a replica that heard no report")
		// The gateway cannot read the rows, another one has not read them yet, and then no gateway
		// reports.
		r.writeStatus(&cellv1.ReportLegacyRequest{Gateway: "g1", Unreadable: "no route", RequiredVersion: 66})
		r.writeStatus(&cellv1.ReportLegacyRequest{Gateway: "g2", Look: true})
		check(r, "while the rows cannot be read")
		time.Sleep(2 * time.Minute)
		check(r, "after two minutes without gateways")
		check(start(t, store, named("r3")), "at a replica that starts")
	})
}

// serviceSays is a report of one host, from a reading of Nova's tables as they were at at.
func serviceSays(gateway string, revision uint64, at time.Time, change func(*cellv1.LegacyService)) *cellv1.ReportLegacyRequest {
	req := legacyOf(gateway, 66, 1)
	req.Revision = revision
	if !at.IsZero() {
		req.ReadTo = timestamppb.New(at)
	}
	if change != nil {
		change(req.GetServices()[0])
	}
	return req
}

func disabled(s *cellv1.LegacyService)   { s.Disabled, s.DisabledReason = true, "HW failure" }
func forcedDown(s *cellv1.LegacyService) { s.ForcedDown, s.Up = true, false }
func silent(s *cellv1.LegacyService)     { s.Up = false }

const (
	isDisabled   = "ComputeFilter: disabled in Nova: HW failure"
	isForcedDown = "ComputeFilter: forced down in Nova"
	isSilent     = "ComputeFilter: its nova-compute is down"
)

// novaWords counts the writes of Nova's status of hosts.
func novaWords(store *testStore, written *int) {
	store.hook(func(ops []shard.Op, apply func() (shard.Applied, error)) (shard.Applied, error) {
		for _, op := range ops {
			if op.SetNovaState != nil {
				*written++
			}
		}
		return apply()
	})
}

// Gateways may read replicas of Nova's database that lag. Of operators' changes the newest reading
// counts, and a heartbeat counts if any gateway has seen it.
func TestOfSeveralReportsTheNewestReadingCounts(t *testing.T) {
	early, late := time.Unix(1_000, 0), time.Unix(1_030, 0)
	for _, c := range []struct {
		name   string
		a, b   *cellv1.ReportLegacyRequest
		reason string // why a filter rejects the host; empty if none does
	}{
		{"disabled since", serviceSays("a", 1, early, nil), serviceSays("b", 1, late, disabled), isDisabled},
		{"enabled since", serviceSays("a", 1, early, disabled), serviceSays("b", 1, late, nil), ""},
		{"another word since", serviceSays("a", 1, early, disabled), serviceSays("b", 1, late, forcedDown), isForcedDown},
		{"two words by turns", serviceSays("a", 1, early, forcedDown), serviceSays("b", 1, late, disabled), isDisabled},
		{"two as new", serviceSays("a", 1, late, forcedDown), serviceSays("b", 1, late, disabled), isForcedDown},
		{"one as new", serviceSays("a", 1, late, nil), serviceSays("b", 1, late, disabled), isDisabled},
		{"a heartbeat since", serviceSays("a", 1, early, silent), serviceSays("b", 1, late, nil), ""},
		{"a heartbeat that one saw", serviceSays("a", 1, late, silent), serviceSays("b", 1, early, nil), ""},
		{"none has a heartbeat", serviceSays("a", 1, early, silent), serviceSays("b", 1, late, silent), isSilent},
		{"up again, and disabled", serviceSays("a", 1, early, silent), serviceSays("b", 1, late, disabled), isDisabled},
		{"gateways that do not say when", serviceSays("a", 1, time.Time{}, nil), serviceSays("b", 1, time.Time{}, disabled), isDisabled},
	} {
		for _, reports := range [][]*cellv1.ReportLegacyRequest{{c.a, c.b}, {c.b, c.a}} {
			synctest.Test(t, func(t *testing.T) {
				store, written := newStore(t), 0
				r := start(t, store)
				r.register(plainState(1, 8))
				r.pin(nativeState)
				for _, req := range reports {
					r.writeStatus(req)
				}
				got := r.rejected(query(1))
				if len(got) > 1 || c.reason == "" && len(got) > 0 || c.reason != "" && got[c.reason] != 1 {
					t.Errorf("%s, first from %s: rejected are %v, want %q", c.name, reports[0].GetGateway(), got, c.reason)
				}
				novaWords(store, &written)
				for range 5 {
					for _, req := range reports {
						r.writeStatus(req)
					}
				}
				if written != 0 {
					t.Errorf("%s: %d words were written by reports that say nothing new", c.name, written)
				}
			})
		}
	}
}

// Each of two replicas of a cell has a gateway that reads its own copy of Nova's database. The copy
// that lags undoes nothing until it has caught up.
func TestAReadingThatIsBehindChangesNothingThroughAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, written := newStore(t), 0
		r := start(t, store, named("r1"))
		behind := start(t, store, named("r2"))
		r.register(plainState(1, 8))
		r.pin(nativeState)
		time.Sleep(time.Second) // the other replica reads the journal
		novaWords(store, &written)
		at := func(s int64) time.Time { return time.Unix(1_000+s, 0) }
		var fresh, stale *cellv1.ReportLegacyRequest
		for _, c := range []struct {
			now, was func() *cellv1.ReportLegacyRequest
			want     string
			words    int
		}{
			{func() *cellv1.ReportLegacyRequest { return serviceSays("a", 1, at(10), disabled) }, func() *cellv1.ReportLegacyRequest { return serviceSays("b", 1, at(0), nil) }, isDisabled, 1},
			{func() *cellv1.ReportLegacyRequest { return serviceSays("a", 2, at(20), forcedDown) }, func() *cellv1.ReportLegacyRequest { return serviceSays("b", 2, at(10), disabled) }, isForcedDown, 1},
			{func() *cellv1.ReportLegacyRequest { return serviceSays("a", 3, at(30), nil) }, func() *cellv1.ReportLegacyRequest { return serviceSays("b", 3, at(20), forcedDown) }, "", 1},
			// The lagging copy has caught up, and is the first to show the next change.
			{func() *cellv1.ReportLegacyRequest { return serviceSays("a", 4, at(30), nil) }, func() *cellv1.ReportLegacyRequest { return serviceSays("b", 4, at(40), disabled) }, isDisabled, 1},
		} {
			fresh, stale = c.now(), c.was()
			before := written
			for range 4 {
				r.writeStatus(fresh)
				time.Sleep(time.Second)
				behind.writeStatus(stale)
				time.Sleep(time.Second)
			}
			r.cell.live.NoteSeen(hostUUID(1))
			synctest.Wait()
			if got := r.rejected(query(1)); c.want == "" && len(got) > 0 || c.want != "" && got[c.want] != 1 {
				t.Errorf("rejected are %v, want %q", got, c.want)
			}
			if n := written - before; n != c.words {
				t.Errorf("%q was written with %d words, want %d", c.want, n, c.words)
			}
		}
	})
}

// If a gateway cannot read Nova's tables any more, or is gone, its last report stays. The other
// gateway's reading is older.
func TestAGatewayThatCannotReadChangesNoWord(t *testing.T) {
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, newStore(t))
			r.register(plainState(1, 8))
			r.pin(nativeState)
			old := serviceSays("b", 1, time.Unix(1_000, 0), nil)
			r.writeStatus(old)
			r.writeStatus(serviceSays("a", 1, time.Unix(1_030, 0), disabled))
			check := func(when, want string) {
				t.Helper()
				r.cell.live.NoteSeen(hostUUID(1))
				synctest.Wait()
				if got := r.rejected(query(1)); want == "" && len(got) > 0 || want != "" && got[want] != 1 {
					t.Errorf("%s rejected are %v, want %q", when, got, want)
				}
			}
			check("at first", isDisabled)
			if gone {
				time.Sleep(gate.KeepReports + time.Second)
			} else {
				r.writeStatus(&cellv1.ReportLegacyRequest{Gateway: "a", Unreadable: "no route", RequiredVersion: 66})
			}
			r.writeStatus(old)
			check("by what is left", isDisabled)
			r.writeStatus(serviceSays("b", 2, time.Unix(1_060, 0), nil))
			check("by a newer reading", "")
		})
	}
}

const isUnknown = "ComputeFilter: disabled in Nova: " + gate.UnknownToNova

// An agent that lost its uuid registers its machine as a new host, with all of its room.
func TestAHostThatNovaHasNotIsLeftOutUntilARowHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		r.pin(nativeState)
		r.writeStatus(legacyOf("g1", 66, 0, 1))
		for n := range 3 {
			r.register(plainState(n, 8))
		}
		check := func(when string, passed int32, want int32) {
			t.Helper()
			for n := range 3 {
				r.cell.live.NoteSeen(hostUUID(n))
			}
			synctest.Wait()
			if p, got := r.propose(query(1)), r.rejected(query(1))[isUnknown]; p.GetPassed() != passed || got != want {
				t.Errorf("%s %d hosts pass, %d are unknown to Nova; want %d and %d", when, p.GetPassed(), got, passed, want)
			}
		}
		r.writeStatus(legacyOf("g1", 66, 0, 1))
		check("at first", 2, 1)
		if o := r.do(claimAt(2))[0].GetRefusal(); o.GetReason() != string(fault.NoValidHost) || o.GetDetail() != "disabled in Nova: "+gate.UnknownToNova {
			t.Errorf("a claim is refused with %v", o)
		}
		r.writeStatus(&cellv1.ReportLegacyRequest{Gateway: "g1", Unreadable: "no route", RequiredVersion: 66})
		check("when nobody can read", 2, 1)
		none := legacyOf("g1", 66)
		none.Revision = 2
		r.writeStatus(none)
		check("when the tables are empty", 2, 1)
		other := legacyOf("g2", 66, 2)
		r.writeStatus(other)
		check("when one gateway of two has it", 1, 2)
		back := legacyOf("g1", 66, 0, 1, 2)
		back.Revision = 3
		r.writeStatus(back)
		check("with its row", 3, 0)
	})
}

// A row that no gateway can answer from still makes the host known to Nova. Its service status
// counts.
func TestAHostWhoseRowNoGatewayCanUseStaysInService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		r.pin(nativeState)
		report := func(revision uint64, change func(*cellv1.LegacyService)) {
			t.Helper()
			req := legacyOf("g1", 66, 0, 1, 2)
			req.Revision = revision
			for _, s := range req.GetServices()[1:] {
				s.NodeUuids, s.LeftOutUuids = nil, s.NodeUuids
			}
			change(req.GetServices()[1])
			r.writeStatus(req)
			synctest.Wait()
		}
		check := func(when string, want ...string) {
			t.Helper()
			for n := range 3 {
				r.cell.live.NoteSeen(hostUUID(n))
			}
			got := r.rejected(query(1))
			if passed := r.propose(query(1)).GetPassed(); int(passed) != 3-len(want) || len(got) != len(want) {
				t.Errorf("%s %d pass, and it rejects %v", when, passed, got)
			}
			for _, w := range want {
				if got[w] != 1 {
					t.Errorf("%s it rejects %v, want %q", when, got, w)
				}
			}
		}
		r.register(plainState(0, 8))
		r.register(plainState(1, 8))
		report(1, func(*cellv1.LegacyService) {})
		r.register(plainState(2, 8)) // after its row became such
		check("with rows that no gateway can use")
		report(2, func(s *cellv1.LegacyService) { s.Disabled, s.DisabledReason = true, "a fan" })
		check("disabled", "ComputeFilter: disabled in Nova: a fan")
		report(3, func(s *cellv1.LegacyService) { s.Up = false })
		check("silent", "ComputeFilter: its nova-compute is down")
		report(4, func(s *cellv1.LegacyService) { s.LeftOutUuids = nil })
		check("without a row", isUnknown)
		report(5, func(*cellv1.LegacyService) {})
		check("with it again")
	})
}

// The new host is out of service from the start: requests prefer an empty host.
func TestANewHostThatNovaHasNotIsOutOfServiceBeforeTheNextReport(t *testing.T) {
	for name, c := range map[string]struct {
		before *cellv1.ReportLegacyRequest
		want   string
	}{
		"another uuid":             {legacyOf("g1", 66, 0), isUnknown},
		"its row":                  {legacyOf("g1", 66, 0, 1), ""},
		"tables that are empty":    {legacyOf("g1", 66), ""},
		"nobody can read":          {&cellv1.ReportLegacyRequest{Gateway: "g1", Unreadable: "no route", RequiredVersion: 66}, "ComputeFilter: disabled in Nova: " + gate.UnreadableToNova},
		"a cell without a gateway": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, newStore(t))
				r.pin(nativeState)
				r.register(plainState(0, 8))
				if c.before != nil {
					r.writeStatus(c.before)
				}
				r.register(plainState(1, 8))
				got := r.rejected(query(1))
				if c.want == "" && len(got) > 0 || c.want != "" && got[c.want] != 1 {
					t.Errorf("rejects %v, want %q", got, c.want)
				}
				r.writeStatus(legacyOf("g2", 66, 0, 1))
				synctest.Wait()
				if got := r.rejected(query(1)); len(got) > 0 {
					t.Errorf("with a report that has its row: rejects %v", got)
				}
			})
		})
	}
}

// The replica that gateways report to writes a new host, even if the host's agent reached another
// replica first.
func TestANewHostIsWrittenByWhoHearsGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		one, two := start(t, store, named("r1")), start(t, store, named("r2"))
		one.pin(nativeState)
		time.Sleep(time.Second) // the other replica reads the pin
		one.writeStatus(legacyOf("g1", 66, 0))
		reached := make(chan struct{})
		go func() {
			defer close(reached)
			two.register(plainState(1, 8))
		}()
		synctest.Wait()
		following := plainState(1, 8)
		following.Follow = true
		one.register(following)
		<-reached
		for _, r := range []*testCell{one, two} {
			if p, got := r.propose(query(1)), r.rejected(query(1)); p.GetPassed() != 0 || got[isUnknown] != 1 {
				t.Errorf("%d hosts pass, rejects %v", p.GetPassed(), got)
			}
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
		r.writeStatus(outOfService("g1"))
		keep := func(q *cellv1.SetAdminStateRequest) { q.KeepNova = true }
		both := "in maintenance: a bad disk; disabled in Nova: HW failure"
		if o := r.do(claimAt(1))[0].GetRefusal(); o.GetDetail() != both {
			t.Errorf("a claim is refused with %v", o)
		}
		if a := r.operate(1, adminEnabled, keep).GetAdmin(); a.GetState() != adminEnabled || a.GetNova() != "disabled in Nova: HW failure" {
			t.Errorf("while Nova's rows are read, enabled is answered as %v", a)
		}
		if o := r.do(claimAt(1))[0].GetRefusal(); o.GetDetail() != "disabled in Nova: HW failure" {
			t.Errorf("a claim is refused then with %v", o)
		}
		// When no gateway reads Nova's services any more, the operator's state counts.
		time.Sleep(gate.KeepReports + time.Second)
		if a := r.operate(1, adminEnabled).GetAdmin(); a.GetState() != adminEnabled || a.GetNova() != "" {
			t.Errorf("when nobody reads them, enabled is answered as %v", a)
		}
		r.must(claimAt(1))
	})
}

// Reports of up to 10,000 services come every 2 s. Only changes are written.
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
			r.writeStatus(outOfService("g1"))
		}
		if want := []string{hostUUID(1), hostUUID(2), hostUUID(3), hostUUID(4)}; strings.Join(written, " ") != strings.Join(want, " ") {
			t.Errorf("written were %v, want %v", written, want)
		}
	})
}
