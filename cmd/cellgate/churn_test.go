package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/agent"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// churnInstances is how many instances of a changing host come and go, in addition to its initial
// ones.
const churnInstances = 3

// churn is a Source of simulated hosts whose states change. Each host changes about once in Every,
// one after the other. Once in BurstEvery, the next Burst of hosts change at once, as when a rack's
// power returns. Instances come and go, and builds begin and end. The seed decides what changes.
type churn struct {
	*agent.Simulation
	Seed              uint64
	Every, BurstEvery time.Duration
	Burst             int
}

// Run changes states until ctx ends.
func (c *churn) Run(ctx context.Context) error {
	dice := rand.New(rand.NewPCG(c.Seed, 0))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var burst <-chan time.Time
	if c.Burst > 0 {
		t := time.NewTicker(c.BurstEvery)
		defer t.Stop()
		burst = t.C
	}
	began, done, next, hosts := time.Now(), 0, 0, c.Hosts()
	change := func() {
		h := hosts[next%len(hosts)]
		next++
		state, _ := h.State()
		h.Put(churned(state, dice))
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			due := int(time.Since(began).Seconds() / c.Every.Seconds() * float64(len(hosts)))
			for ; done < due; done++ {
				change()
			}
		case <-burst:
			for range c.Burst {
				change()
			}
		}
	}
}

// churned is the state after one change. DisabledReason numbers the changes.
func churned(s *agentv1.FullState, dice *rand.Rand) *agentv1.FullState {
	next := proto.CloneOf(s)
	next.IoWorkload = dice.Int32N(5)
	next.DisabledReason = fmt.Sprintf("change %d", s.GetVersion())
	id := churnInstance(s.GetHostUuid(), dice.IntN(churnInstances))
	next.Instances = nil
	for _, i := range s.GetInstances() {
		if i.GetInstanceUuid() != id {
			next.Instances = append(next.Instances, i)
		}
	}
	if len(next.GetInstances()) == len(s.GetInstances()) {
		next.Instances = append(next.Instances, &agentv1.Instance{
			InstanceUuid: id, ProjectId: fmt.Sprintf("%032x", 0x5a000000),
			Usages: []*agentv1.Usage{{ProviderUuid: s.GetHostUuid(), ResourceClass: "VCPU", Amount: 1}},
		})
	}
	return next
}

// churnInstance is the uuid of the n-th instance that comes and goes on a host.
func churnInstance(host string, n int) string {
	return fmt.Sprintf("%s-%04x-%s", host[:8], 0x4000+n, host[14:])
}
