package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
)

// Each host changes about once in Every, and a burst on top of that; the states before
// are left as they were.
func TestChurnChangesStatesAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Churn{Simulation: simulation(t, 50), Every: 10 * time.Second, BurstEvery: 30 * time.Second, Burst: 20}
		first, _ := c.Hosts()[0].State()
		before := proto.CloneOf(first)
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second+time.Millisecond)
		defer cancel()
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		changes, instances := 0, 0
		for _, h := range c.Hosts() {
			s, _ := h.State()
			changes += int(s.GetVersion() - 1)
			instances += len(s.GetInstances())
			ids := map[string]bool{}
			for _, i := range s.GetInstances() {
				if ids[i.GetInstanceUuid()] {
					t.Errorf("instance %s twice", i.GetInstanceUuid())
				}
				ids[i.GetInstanceUuid()] = true
			}
		}
		if changes != 4*50+20 {
			t.Errorf("%d changes in 40 s, want 4 of each of 50 hosts and a burst of 20", changes)
		}
		if instances == 0 {
			t.Error("no instance came")
		}
		if !proto.Equal(first, before) {
			t.Error("a state that was handed out was changed")
		}
	})
}
