package cell

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// shownHosts returns a table's hosts in a comparable form.
func shownHosts(t *schedule.Table) map[schedule.ID]schedule.Host {
	out := map[schedule.ID]schedule.Host{}
	for h := range t.All() {
		h.Down = false // each replica tracks this itself
		slices.SortFunc(h.Resources, func(a, b schedule.Resource) int {
			if a.Class < b.Class {
				return -1
			}
			return 1
		})
		out[h.UUID] = h
	}
	return out
}

// places returns an instance's hosts and groups, sorted.
func places(t *schedule.Table, instance schedule.ID) []string {
	var out []string
	for _, p := range t.Places(instance) {
		out = append(out, fmt.Sprint(p))
	}
	slices.Sort(out)
	return out
}

// Two replicas run random operations, with leases that end and transactions whose outcome is
// unknown. Afterwards both replicas' tables equal what a third replica loads.
func TestTheTableIsTheShardWhateverWayItCame(t *testing.T) {
	const hosts, consumers, steps = 6, 40, 400
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				draw := rand.New(rand.NewPCG(seed, 1))
				store := newStore(t)
				pair := []*testCell{start(t, store), start(t, store, func(c *Config) { c.Replica = "r2" })}
				for n := range hosts {
					pair[n%2].register(plainState(n, 16))
				}
				var applies atomic.Int64 // of both lanes
				store.hook(func(_ []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
					applied, err := commit()
					if applies.Add(1)%17 == 0 && err == nil {
						return shard.Applied{}, errUnknown
					}
					return applied, err
				})
				version := uint64(1)
				for step := range steps {
					r := pair[draw.IntN(2)]
					consumer := draw.IntN(consumers)
					id := fmt.Sprintf("k%d-%d", consumer, step/80)
					switch draw.IntN(11) {
					case 0:
						r.do(confirm(id, consumer))
					case 1, 2:
						r.do(release(id, consumer))
					case 3:
						n := draw.IntN(hosts)
						s := plainState(n, 16+draw.Int32N(3))
						version++
						s.Version = version
						a := r.agent()
						a.report(s)
						a.cancel()
					case 4:
						time.Sleep(time.Duration(draw.IntN(3)) * time.Second)
					case 5:
						r.do(swap(id, consumer, draw.IntN(hosts), 1+draw.Int32N(3)))
					case 6:
						r.do(transfer(id, consumer, consumers+consumer))
					case 7:
						move := newClaim("m"+id, consumer, draw.IntN(hosts), 1)
						move.GetClaim().MovesClaimId = id
						r.do(confirm(id, consumer), move)
						if draw.IntN(3) == 0 {
							r.do(confirm("m"+id, consumer))
						}
					default:
						op := newClaim(id, consumer, draw.IntN(hosts), 1+draw.Int32N(3))
						op.GetClaim().Ttl = durationpb.New(time.Duration(1+draw.IntN(20)) * time.Second)
						if draw.IntN(2) == 0 {
							op.GetClaim().Group = &cellv1.ClaimGroup{Uuid: hostUUID(500 + draw.IntN(3)), Policy: "soft-affinity"}
						}
						r.do(op)
					}
				}
				store.hook(nil)
				pair[0].register(plainState(hosts, 16))
				pair[1].register(plainState(hosts+1, 16))
				last := newClaim("move", 2*consumers, hosts, 1)
				last.GetClaim().MovesClaimId = "source"
				pair[0].must(newClaim("source", 2*consumers, hosts, 1), last, swap("move", 2*consumers, hosts+1, 1), confirm("source", 2*consumers))
				// After the last scan of leases, and the read of the journal that follows it.
				time.Sleep(5*time.Second + 350*time.Millisecond)
				synctest.Wait()
				fresh := start(t, store, func(c *Config) { c.Replica = "r3" })
				want := fresh.cell.versions.Current()
				live, doubled := 0, 0
				for _, r := range pair {
					got := r.cell.versions.Current()
					if g, w := shownHosts(got), shownHosts(want); !reflect.DeepEqual(g, w) {
						for id := range maps.Keys(w) {
							if !reflect.DeepEqual(g[id], w[id]) {
								t.Errorf("%s: host %s\n got %+v\nwant %+v", r.cell.cfg.Replica, id, g[id], w[id])
							}
						}
					}
					for n := range 2*consumers + 1 {
						id, err := schedule.ParseID(consumerUUID(n))
						if err != nil {
							t.Fatal(err)
						}
						g, w := places(got, id), places(want, id)
						if !slices.Equal(g, w) {
							t.Errorf("%s: consumer %d is at %v, want %v", r.cell.cfg.Replica, n, g, w)
						}
						live += min(1, len(w))
						doubled += len(w) / 2
					}
				}
				if live == 0 || doubled == 0 || applies.Load() < 17 {
					t.Errorf("nothing was tried: %d live claims, %d of them doubled, %d transactions", live/2, doubled/2, applies.Load())
				}
			})
		})
	}
}
