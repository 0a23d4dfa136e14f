package cell

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// While hundreds of leases end and callers claim, each claim is in the next transaction. Ended
// leases get at most a 32nd of a transaction, and callers get half of the time. All leases still
// end.
func TestPacing_MassExpiry_ClaimsInTheNextTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases, batch, each = 600, 64, 4 * time.Millisecond
		store := newStore(t)
		r := start(t, store, func(c *Config) { c.MaxBatch = batch })
		r.register(plainState(1, 1<<20))
		for n := range leases {
			c := newClaim(fmt.Sprintf("lease%d", n), n, 1, 1)
			c.GetClaim().Ttl = durationpb.New(5 * time.Second)
			r.must(c)
		}
		var mu sync.Mutex
		ended := 0
		var busy, began time.Duration
		zero := time.Now()
		store.hook(func(ops []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
			expires := 0
			for _, op := range ops {
				if op.Expire != nil {
					expires++
				}
			}
			mu.Lock()
			if expires > 0 && began == 0 {
				began = time.Since(zero)
			}
			if expires == len(ops) {
				busy += each
			}
			if expires > batch/32 {
				t.Errorf("%d leases end in one transaction of at most %d", expires, batch)
			}
			ended += expires
			mu.Unlock()
			time.Sleep(each) // virtual: the duration of a transaction
			return commit()
		})
		endedSoFar := func() int {
			mu.Lock()
			defer mu.Unlock()
			return ended
		}
		claimed := 0
		for endedSoFar() < leases && claimed < 1000 {
			at := time.Now()
			r.must(newClaim(fmt.Sprintf("claim%d", claimed), leases+claimed, 1, 1))
			claimed++
			// The transaction under way, and the next one.
			if took := time.Since(at); took > 2*each {
				t.Fatalf("claim %d took %v while leases ended, and a transaction takes %v", claimed, took, each)
			}
			time.Sleep(10 * each) // virtual
		}
		mu.Lock()
		defer mu.Unlock()
		if ended != leases {
			t.Fatalf("%d of %d leases ended beside %d claims", ended, leases, claimed)
		}
		if all := time.Since(zero) - began; busy > all/2+each {
			t.Errorf("transactions that only end leases took %v of %v", busy, all)
		}
	})
}

// However many hosts report at once, at most half of the processors decode states.
func TestPacing_BurstOfReports_FewAreDecodedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		// With all decoding slots taken, a state waits, but a claim does not.
		r.register(plainState(1, 8))
		for range cap(r.cell.agents.Decoding) {
			r.cell.agents.Decoding <- struct{}{}
		}
		registered := make(chan struct{})
		go func() {
			defer close(registered)
			r.register(plainState(2, 8))
		}()
		synctest.Wait()
		if r.cell.rows.Host(hostUUID(2)) != nil {
			t.Error("a state was read though others are")
		}
		r.must(newClaim("k1", 1, 1, 1))
		<-r.cell.agents.Decoding
		<-registered
		// A state that waits for the shard has no decoding slot.
		if n := len(r.cell.agents.Decoding); n != cap(r.cell.agents.Decoding)-1 {
			t.Errorf("%d places are taken, want those of this test", n)
		}
		for range cap(r.cell.agents.Decoding) - 1 {
			<-r.cell.agents.Decoding
		}
	})
}

// While callers ask, the cell rests after each decoded state: for eight times as long as decoding
// took, but at most 5 ms.
func TestAwaitDecoding_CallersCome_RestsAfterEachState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		r.register(plainState(1, 8))
		for i, c := range []struct {
			busy       bool
			took, rest time.Duration
		}{
			{false, time.Millisecond, 0},
			{true, time.Millisecond / 2, 4 * time.Millisecond},
			{true, time.Second / 2, 5 * time.Millisecond},
		} {
			if c.busy {
				r.must(newClaim(fmt.Sprint("k", i), i, 1, 1))
			}
			decoded, err := r.cell.agents.AwaitDecoding(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(c.took)
			decoded()
			if c.rest > 0 {
				time.Sleep(c.rest - time.Nanosecond)
				if len(r.cell.agents.Decoding) != 1 {
					t.Errorf("%+v: no rest", c)
				}
				time.Sleep(time.Nanosecond)
			}
			synctest.Wait()
			if len(r.cell.agents.Decoding) != 0 {
				t.Errorf("%+v: the rest is longer", c)
			}
		}
	})
}

// Totals that are updated by each change equal totals that are counted anew.
func TestTotals_RandomChanges_AsCountedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		dice, agents := rand.New(rand.NewPCG(1, 2)), map[int]*testAgent{}
		for step := range 200 {
			n := dice.IntN(6)
			switch dice.IntN(4) {
			case 0:
				r.do(newClaim(fmt.Sprintf("c%d", step), step, n, int32(1+dice.IntN(4))))
			case 1:
				c := dice.IntN(step + 1)
				r.do(release(fmt.Sprintf("c%d", c), c))
			default:
				s := plainState(n, int32(4*(1+dice.IntN(4))))
				s.Version = uint64(step + 1)
				s.Disabled = dice.IntN(4) == 0
				s.Providers[0].Traits = []string{fmt.Sprintf("CUSTOM_T%d", dice.IntN(3))}
				if dice.IntN(2) == 0 {
					s.Aggregates = []*agentv1.Aggregate{{Uuid: hostUUID(900 + dice.IntN(3)), Metadata: map[string]string{
						"availability_zone": fmt.Sprintf("az%d", dice.IntN(3)), "filter_tenant_id": fmt.Sprintf("p%d", dice.IntN(2)),
					}}}
				}
				if dice.IntN(3) == 0 {
					s.Providers = append(s.Providers, &agentv1.Provider{
						Uuid: hostUUID(100 + n), ParentUuid: hostUUID(n), Traits: []string{"CUSTOM_CHILD"},
						Inventories: []*agentv1.Inventory{{ResourceClass: fmt.Sprintf("CUSTOM_C%d", dice.IntN(2)), Total: 4, AllocationRatio: 1}},
					})
				}
				if agents[n] == nil {
					agents[n] = r.agent()
				}
				if a := agents[n].report(s); a.GetAccepted() == nil {
					t.Fatal(a)
				}
			}
			if dice.IntN(3) > 0 {
				continue // several changes between two readings
			}
			got := r.cell.newestSummary()
			whole := newTotals()
			whole.recount(r.cell.rows, r.cell.live)
			want := whole.message()
			want.Cell, want.CellUuid, want.Replica = got.GetCell(), got.GetCellUuid(), got.GetReplica()
			w, g := want.GetTotals(), got.GetTotals()
			w.Cell, w.CellUuid, w.Enabled, w.Available, w.TableVersion = g.GetCell(), g.GetCellUuid(), true, true, g.GetTableVersion()
			if !proto.Equal(got, want) {
				t.Fatalf("step %d:\ngot  %v\nwant %v", step, got, want)
			}
		}
	})
}

// After one host has changed, the next summary counts that host only.
func TestTotals_OneHostChanges_OnlyItIsCounted(t *testing.T) {
	r := start(t, newStore(t))
	for n := range 5 {
		r.register(plainState(n, 8))
	}
	r.cell.newestSummary()
	before := map[string]*countedHost{}
	for uuid, h := range r.cell.summary.hosts {
		before[uuid] = h
	}
	r.must(newClaim("k1", 1, 3, 2))
	if p := r.cell.newestSummary().GetTotals().GetClaimsPending(); p != 1 {
		t.Fatalf("%d claims are pending, want 1", p)
	}
	for uuid, h := range r.cell.summary.hosts {
		if same := before[uuid] == h; same == (uuid == hostUUID(3)) {
			t.Errorf("host %s: counted anew is %v", uuid, !same)
		}
	}
}
