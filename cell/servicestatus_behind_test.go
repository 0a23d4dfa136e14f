package cell

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// readCopy returns what a gateway reads of Nova's services from a database copy that lags. Each
// service has a heartbeat every 10 s until dead; that of host n started 3n s after the first.
func readCopy(gateway string, behind time.Duration, dead time.Time, hosts ...int) *cellv1.ReportLegacyRequest {
	req := legacyOf(gateway, 66, hosts...)
	req.Revision = uint64(time.Now().UnixNano())
	moment := time.Now().Add(-behind)
	if !dead.IsZero() && moment.After(dead) {
		moment = dead
	}
	var newest time.Time
	for i, s := range req.GetServices() {
		late := time.Duration(hosts[i]) * 3 * time.Second
		beat := moment.Add(-late).Truncate(10 * time.Second).Add(late)
		s.LastSeen, s.Up = timestamppb.New(beat), time.Since(beat) <= time.Minute
		if beat.After(newest) {
			newest = beat
		}
	}
	req.ReadTo = timestamppb.New(newest)
	return req
}

// statusWrites counts how often Nova's status of a host is written.
type statusWrites struct{ n int }

// twoReplicas starts two replicas of a cell of three agents, each with its own gateway.
func twoReplicas(t *testing.T) (fresh, late *testCell, s *statusWrites) {
	t.Helper()
	store := newStore(t)
	fresh, late = start(t, store, named("r1")), start(t, store, named("r2"))
	for n := range 3 {
		fresh.register(plainState(n, 8))
	}
	fresh.pin(nativeState)
	time.Sleep(time.Second) // the other replica reads the journal
	s = &statusWrites{}
	store.hook(func(ops []shard.Op, apply func() (shard.Applied, error)) (shard.Applied, error) {
		for _, op := range ops {
			if op.SetNovaState != nil {
				s.n++
			}
		}
		return apply()
	})
	return fresh, late, s
}

// outNow returns the number of hosts that get no new instances, by their rows.
func (r *testCell) outNow() (out int) {
	for n := range 3 {
		if row := r.cell.rows.Host(hostUUID(n)); len(row.Admin.Withholding()) > 0 {
			out++
		}
	}
	return out
}

// A silent host comes back with its own next heartbeat. That holds even if a compute whose clock is
// ahead has dated other rows of Nova's in the future.
func TestASilentHostComesBackWhereAClockIsAhead(t *testing.T) {
	for _, lead := range []time.Duration{0, 50 * time.Second} {
		t.Run(lead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fresh, _, _ := twoReplicas(t)
				report := func(n int, beats func(host int) bool) {
					for range n {
						req := readCopy("g1", 0, time.Time{}, 0, 1, 2)
						for i, s := range req.GetServices() {
							if !beats(i) {
								old := time.Now().Add(-2 * time.Minute)
								s.LastSeen, s.Up = timestamppb.New(old), false
							}
						}
						req.ReadTo = timestamppb.New(time.Now().Add(lead))
						fresh.writeStatus(req)
						time.Sleep(2 * time.Second)
					}
				}
				report(60, func(host int) bool { return host != 2 })
				if out := fresh.outNow(); out != 1 {
					t.Fatalf("%d hosts are out while one is silent", out)
				}
				report(10, func(int) bool { return true })
				if out := fresh.outNow(); out != 0 {
					t.Errorf("%d hosts are out after it beat again for 20 s", out)
				}
			})
		})
	}
}
