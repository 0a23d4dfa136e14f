package gateway

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// Each read of the rows is asked for the instances that the cell awaits, the first one too; not
// while the cell answers itself.
func TestRowsAreAskedForAwaitedInstances(t *testing.T) {
	for state, want := range map[cellgatev1.Gate_State][]schedule.ID{
		cellgatev1.Gate_LEGACY: {mustID(testUUID(0xd, 1))}, cellgatev1.Gate_SHADOW: {mustID(testUUID(0xd, 1))}, cellgatev1.Gate_NATIVE: nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			f, u := gated(1, testHost(1, 1)), newUpgrading()
			f.gate.awaited = []*cellv1.AwaitedClaim{{ClaimId: "c1", ConsumerUuid: testUUID(0xd, 1), HostUuid: testUUID(0xa, 1)}}
			f.gate.move(state)
			startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			u.reader.mu.Lock()
			defer u.reader.mu.Unlock()
			if len(u.reader.awaited) < 2 {
				t.Errorf("%v: %d reads", state, len(u.reader.awaited))
			}
			for i, got := range u.reader.awaited {
				if !slices.Equal(got, want) {
					t.Errorf("%v: read %d was asked for %v, want %v", state, i, got, want)
				}
			}
		})
	}
}
