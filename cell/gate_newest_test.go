package cell

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// rowOf is the row of a host's service, of a version, written so long ago.
func rowOf(host string, version int32, ago time.Duration) legacyService {
	s := newService(host)
	s.version, s.changedAt, s.lastSeen = version, gateStart.Add(-ago), gateStart.Add(-ago)
	return s
}

func rowsBy(gateway string, rows ...legacyService) legacyReport {
	return legacyReport{gateway: gateway, required: 66, services: rows}
}

// oldBy is of a gateway that cannot tell yet which services are down.
func oldBy(gateway string, old ...legacyService) legacyReport {
	return legacyReport{gateway: gateway, required: 66, unreadable: "some look down", old: old}
}

// What an older row says does not overrule a newer one of the same service, whichever gateway
// has it; a newer row that is old closes the gate.
func TestTheNewestRowOfAServiceCounts(t *testing.T) {
	const s = time.Second
	fresh := rowsBy("g1", rowOf("a", 66, 5*s), rowOf("b", 66, 2*s))
	cannot := fresh
	cannot.unreadable = "refused"
	for _, c := range []struct {
		name    string
		reports []legacyReport
		gone    *legacyReport
		closes  bool
	}{
		{"one that is behind alone", []legacyReport{rowsBy("g2", rowOf("a", 60, 40*s), rowOf("b", 66, 42*s))}, nil, true},
		{"one that is behind", []legacyReport{rowsBy("g2", rowOf("a", 60, 40*s), rowOf("b", 66, 42*s)), fresh}, nil, false},
		{"one that is behind, and the other is not heard any more", []legacyReport{rowsBy("g2", rowOf("a", 60, 40*s), rowOf("b", 66, 42*s))}, &fresh, false},
		{"one that is behind, and the other cannot read any more", []legacyReport{rowsBy("g2", rowOf("a", 60, 40*s)), cannot}, nil, false},
		{"a rollback", []legacyReport{rowsBy("g2", rowOf("a", 60, 1*s), rowOf("b", 66, 2*s)), fresh}, nil, true},
		{"a rollback that the one which is gone has not seen", []legacyReport{rowsBy("g2", rowOf("a", 60, 1*s), rowOf("b", 66, 2*s))}, &fresh, true},
		{"a rollback that a gateway which is behind has not seen", []legacyReport{fresh, rowsBy("g2", rowOf("a", 60, 1*s))}, nil, true},
		{"a rollback that only the one which is gone has seen", []legacyReport{fresh}, &legacyReport{services: []legacyService{rowOf("a", 60, 1*s)}}, true},
		{"rows of the same second", []legacyReport{rowsBy("g2", rowOf("a", 60, 5*s)), fresh}, nil, true},
		{"a row without a time", []legacyReport{rowsBy("g2", newServiceOf("a", 60)), fresh}, nil, true},
		{"a newer one of a clock far ahead", []legacyReport{rowsBy("g2", rowOf("a", 60, 1*s)), rowsBy("g1", rowOf("a", 66, -time.Hour))}, nil, true},
		{"deleted, and long not written", []legacyReport{rowsBy("g2", rowOf("gone", 60, 63*s)), fresh}, nil, false},
		{"deleted by now, or new", []legacyReport{rowsBy("g2", rowOf("gone", 60, 40*s)), fresh}, nil, true},
		{"a rollback, of one that cannot tell yet who is down", []legacyReport{oldBy("g2", rowOf("a", 60, 1*s))}, nil, true},
		{"so, of a row that the other has not seen", []legacyReport{oldBy("g2", rowOf("a", 60, 1*s)), fresh}, nil, true},
		{"so, of a row that the one which is gone has not seen", []legacyReport{oldBy("g2", rowOf("a", 60, 1*s))}, &fresh, true},
		{"it is behind, too", []legacyReport{oldBy("g2", rowOf("a", 60, 40*s)), fresh}, nil, false},
		{"it is behind, and the other is not heard any more", []legacyReport{oldBy("g2", rowOf("a", 60, 40*s))}, &fresh, false},
		{"it has none", []legacyReport{oldBy("g2")}, nil, false},
		{"not in the older reading", []legacyReport{rowsBy("g1", rowOf("a", 66, 1*s), rowOf("c", 60, 2*s)), rowsBy("g2", rowOf("a", 66, 50*s))}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := testRules()
			for range 5 { // of a map in any order
				e := evidence{now: gateStart, reports: r.newestRows(c.reports, c.gone, gateStart), node: allRegistered}
				if got := rulesTo(r, gateWith(shard.GateNative, time.Hour), e) == shard.GateLegacy; got != c.closes {
					t.Errorf("it closes: %v", got)
				}
			}
		})
	}
}

func newServiceOf(host string, version int32) legacyService {
	s := newService(host)
	s.version = version
	return s
}

// writtenAgo sets when the rows of a report were written.
func writtenAgo(ago time.Duration, revision uint64, req *cellv1.ReportLegacyRequest) *cellv1.ReportLegacyRequest {
	req.Revision = revision
	for _, s := range req.GetServices() {
		s.ChangedAt, s.LastSeen = timestamppb.New(time.Now().Add(-ago)), timestamppb.New(time.Now().Add(-ago))
	}
	return req
}

// A gateway that starts on a copy of Nova's database which is behind reports an old service that
// was upgraded since. The gate stays NATIVE, whether the gateway that knows better is heard or was
// heard a minute ago; a service that is rolled back closes it with the first report.
func TestAGatewayThatStartsOnACopyThatIsBehindDoesNotCloseTheGate(t *testing.T) {
	for _, away := range []time.Duration{0, 20 * time.Second, time.Minute} {
		t.Run(fmt.Sprint(away), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, newStore(t))
				r.register(plainState(1, 8))
				r.reportLegacy(writtenAgo(2*time.Second, 1, legacyOf("g1", 66, 1)))
				r.pin(nativeState)
				time.Sleep(away)
				r.pin(cellgatev1.Gate_STATE_UNSPECIFIED)
				if g := r.reportLegacy(writtenAgo(50*time.Second+away, 1, legacyOf("g2", 60, 1))).GetGate(); g.GetState() != nativeState || g.GetLaggingHosts() != 0 {
					t.Fatalf("an older row moved it: %v", g)
				}
				time.Sleep(time.Second)
				g := r.reportLegacy(writtenAgo(0, 2, legacyOf("g2", 60, 1))).GetGate()
				if g.GetState() != legacyState || !strings.Contains(g.GetReason(), "is up and of version 60") {
					t.Errorf("a newer row did not: %v", g)
				}
			})
		})
	}
}
