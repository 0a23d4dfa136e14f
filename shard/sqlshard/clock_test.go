package sqlshard

import (
	"testing"
	"testing/synctest"
	"time"
)

// The server's clock was two hours ahead and is set right, or another server takes over. Leases still end: store time
// goes on at the machine's pace. A reading that came late does not change it.
func TestClock_ServersClockWentBack_KeepsItsPace(t *testing.T) {
	for name, restarted := range map[string]bool{"running": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c clock
				start := time.Now()
				tick := func(server, want time.Duration) {
					t.Helper()
					now, _ := c.tick(start.Add(server))
					if got := now.Sub(start).Round(time.Millisecond); got != want {
						t.Errorf("the server's time is %v, store time %v, want %v", server, got, want)
					}
				}
				tick(2*time.Hour, 2*time.Hour)
				tick(2*time.Hour-5*time.Second, 2*time.Hour) // late
				if restarted {
					c = clock{}
					c.start(start.Add(2 * time.Hour).UnixNano())
				}
				tick(0, 2*time.Hour)
				time.Sleep(time.Minute) // virtual
				tick(time.Minute, 2*time.Hour+time.Minute)
				time.Sleep(5 * time.Minute)
				tick(6*time.Minute, 2*time.Hour+6*time.Minute)
				tick(3*time.Hour, 3*time.Hour) // the server's clock is ahead again
			})
		})
	}
}
