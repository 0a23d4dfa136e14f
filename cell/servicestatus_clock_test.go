package cell

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// One compute's clock is behind the others. Its host is back with its first heartbeat, and
// operators' changes to it then count at once.
func TestAComputeWhoseClockIsBehindIsBackWithItsFirstHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		r.pin(nativeState)
		revision := uint64(0)
		says := func(up bool, change func(*cellv1.LegacyService)) *cellv1.ReportLegacyRequest {
			revision++
			req := legacyOf("g1", 66, 0, 1)
			req.Revision, req.ReadTo = revision, timestamppb.Now()
			s := req.GetServices()[1]
			s.Up = up
			if change != nil {
				change(s)
			}
			return req
		}
		step := func(req *cellv1.ReportLegacyRequest, want string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			for n := range 2 {
				r.cell.live.NoteSeen(hostUUID(n))
			}
			r.writeStatus(req)
			synctest.Wait()
			if got := r.rejected(query(1)); want == "" && len(got) > 0 || want != "" && got[want] != 1 {
				t.Errorf("revision %d: rejects %v, want %q", req.GetRevision(), got, want)
			}
		}
		r.writeStatus(says(true, nil))
		r.register(plainState(0, 8))
		r.register(plainState(1, 8))
		step(says(true, nil), "")
		step(says(false, nil), isSilent)
		older := says(true, nil)
		older.ReadTo = timestamppb.New(time.Now().Add(-20 * time.Second))
		step(older, isSilent)
		step(says(false, nil), isSilent)
		step(says(true, nil), "")
		time.Sleep(30 * time.Second)
		step(says(true, func(s *cellv1.LegacyService) { disabled(s) }), isDisabled)
	})
}
