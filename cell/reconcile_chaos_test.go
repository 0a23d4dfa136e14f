package cell

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// Callers, agents and replicas die at random moments. After a quiet time, each confirmed claim has
// an instance that its host reports, or is a finding. Each reported instance has a claim on its
// host, or is a finding. Usage is the sum of the claims.
func TestNothingLeaksUnseen(t *testing.T) {
	seeds := uint64(1)
	if os.Getenv("CELLGATE_LONG") != "" {
		seeds = 60
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &leaks{t: t, rng: rand.New(rand.NewPCG(seed, 7)), store: newStore(t), claims: map[string]leaky{}}
				w.replicas = []*testCell{w.replica(0), w.replica(1)}
				for n := 1; n <= 4; n++ {
					w.machines = append(w.machines, boot(t, n, 16, w.replicas...))
				}
				for range 120 {
					w.step()
					time.Sleep(time.Duration(w.rng.IntN(8000)) * time.Millisecond)
				}
				for _, m := range w.machines {
					if m.down {
						m.start()
					}
				}
				// Leases end, graces pass, and permitted repairs are made.
				time.Sleep(6*time.Minute + 2*releaseAfter)
				w.check()
			})
		})
	}
}

// leaks is a cell, and callers that die.
type leaks struct {
	t        *testing.T
	rng      *rand.Rand
	store    *testStore
	replicas []*testCell
	machines []*machine
	claims   map[string]leaky
	next     int
}

// leaky is the consumer and the host of a claim that was made.
type leaky struct{ consumer, host int }

func (w *leaks) replica(n int) *testCell {
	return start(w.t, w.store, soon, func(c *Config) { c.Replica = fmt.Sprintf("r%d", n); c.TailEvery = time.Second })
}

func (w *leaks) any() *testCell { return w.replicas[w.rng.IntN(len(w.replicas))] }

// one returns an earlier claim at random, or "".
func (w *leaks) one() (string, leaky) {
	if w.next == 0 {
		return "", leaky{}
	}
	id := fmt.Sprintf("k%d", w.rng.IntN(w.next))
	return id, w.claims[id]
}

// step does one random action, and may leave it half done.
func (w *leaks) step() {
	m := w.machines[w.rng.IntN(len(w.machines))]
	switch w.rng.IntN(10) {
	case 0, 1, 2: // a build whose caller may die at any step
		id, c := fmt.Sprintf("k%d", w.next), leaky{w.next, m.n}
		w.next++
		w.claims[id] = c
		if w.any().do(newClaim(id, c.consumer, c.host, 1))[0].GetRefusal() != nil {
			return
		}
		if w.rng.IntN(4) > 0 && !m.down {
			m.run(c.consumer, 1)
		}
		if w.rng.IntN(4) > 0 {
			w.any().do(confirm(id, c.consumer))
		}
	case 3, 4: // a deletion whose caller may die before the release
		id, c := w.one()
		if id == "" {
			return
		}
		if w.rng.IntN(3) > 0 {
			for _, m := range w.machines {
				if _, there := m.runs[c.consumer]; there && !m.down {
					m.run(c.consumer, 0)
				}
			}
		}
		if w.rng.IntN(2) == 0 {
			w.any().do(release(id, c.consumer))
		}
	case 5: // a move that may stop halfway
		id, c := w.one()
		if id == "" {
			return
		}
		op := newClaim(fmt.Sprintf("k%d", w.next), c.consumer, m.n, 1)
		op.GetClaim().MovesClaimId, op.GetClaim().MovesCell = id, "cell1"
		w.claims[op.GetClaim().GetClaimId()] = leaky{c.consumer, m.n}
		w.next++
		if w.any().do(op)[0].GetRefusal() != nil {
			return
		}
		if w.rng.IntN(2) == 0 && !m.down {
			m.run(c.consumer, 1)
		}
		if from := w.machines[c.host-1]; w.rng.IntN(2) == 0 && !from.down && from != m {
			from.run(c.consumer, 0)
		}
	case 6: // an instance without a request
		if !m.down {
			m.run(1000+w.rng.IntN(3), 1)
		}
	case 7: // an agent dies; its instances stay, or end meanwhile
		m.stop()
		m.down = true
		for n := range m.runs {
			if w.rng.IntN(4) == 0 {
				delete(m.runs, n)
			}
		}
	case 8: // an agent comes back
		if m.down {
			m.start()
		}
	case 9: // a replica dies, and comes back
		i := w.rng.IntN(len(w.replicas))
		for _, m := range w.machines {
			m.stop()
		}
		w.replicas[i].stop()
		w.replicas[i] = w.replica(i)
		for _, m := range w.machines {
			m.replicas = w.replicas
			if !m.down {
				m.resume()
			}
		}
	}
}

// check compares the shard with the hosts, plainly, and both with the findings.
func (w *leaks) check() {
	reported := map[string]map[int]bool{} // instance → hosts
	for _, m := range w.machines {
		for n := range m.runs {
			if reported[consumerUUID(n)] == nil {
				reported[consumerUUID(n)] = map[int]bool{}
			}
			reported[consumerUUID(n)][m.n] = true
		}
	}
	type fact struct {
		kind           cellgatev1.Finding_Kind
		host, instance string
	}
	want, got := map[fact]bool{}, map[fact]bool{}
	covered, sums, kept := map[fact]bool{}, map[string]int64{}, map[string]int64{}
	_, err := w.store.Load(context.Background(), func(c shard.Change) error {
		switch {
		case c.Claim != nil:
			at := fact{orphaned, c.Claim.HostUUID, c.Claim.ConsumerUUID}
			covered[fact{0, at.host, at.instance}] = true
			sums[at.host] += c.Claim.Allocations[0].Amount
			if c.Claim.State == shard.Pending {
				w.t.Errorf("after all leases claim %+v is pending", c.Claim)
			}
			there := false
			for host := range reported[at.instance] {
				there = there || hostUUID(host) == at.host
			}
			if !there {
				want[at] = true
			}
		case c.Usage != nil:
			kept[c.Usage.HostUUID] = c.Usage.Of(c.Usage.HostUUID, "VCPU")
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for instance, hosts := range reported {
		for n := range hosts {
			if !covered[fact{0, hostUUID(n), instance}] {
				want[fact{elsewhere, hostUUID(n), instance}] = true
			}
		}
	}
	if len(want) == 0 {
		w.t.Error("nothing was left to be found: the test does nothing")
	}
	for _, r := range w.replicas {
		clear(got)
		for _, f := range r.findings().GetFindings() {
			if f.GetRepairedAt() == nil {
				got[fact{f.GetKind(), f.GetHostUuid(), f.GetConsumerUuid()}] = true
			}
		}
		for f := range want {
			if !got[f] {
				w.t.Errorf("%s did not find %v", r.cell.cfg.Replica, f)
			}
		}
		for f := range got {
			if !want[f] {
				w.t.Errorf("%s found %v", r.cell.cfg.Replica, f)
			}
		}
		r.asTheShard(w.store)
	}
	for _, m := range w.machines {
		if h := hostUUID(m.n); sums[h] != kept[h] {
			w.t.Errorf("host %d: %d in use, the claims are %d", m.n, kept[h], sums[h])
		}
	}
	if ctx := context.Background(); w.t.Failed() {
		page, err := w.store.FindClaims(ctx, shard.ClaimQuery{})
		for _, c := range page.Claims {
			w.t.Logf("claim %s of %s on %s is %s, seen %v, adopted %v", c.ClaimID, c.ConsumerUUID, c.HostUUID, c.State, c.Seen, c.Adopted)
		}
		w.t.Log(err)
	}
}

// asTheShard checks that the table's rows equal those of the shard.
func (r *testCell) asTheShard(store shard.Store) {
	r.t.Helper()
	claims := 0
	_, err := store.Load(context.Background(), func(c shard.Change) error {
		switch {
		case c.Host != nil:
			if row := r.cell.rows.Host(c.Host.UUID); row == nil || row.Host == nil || row.Host.Generation != c.Host.Generation {
				r.t.Errorf("%s: host %+v is another in the table", r.cell.cfg.Replica, c.Host)
			}
		case c.Usage != nil:
			if row := r.cell.rows.Host(c.Usage.HostUUID); row == nil || !shard.SameUse(row.Usage, c.Usage) {
				r.t.Errorf("%s: usage %+v is another in the table", r.cell.cfg.Replica, c.Usage)
			}
		case c.Claim != nil:
			claims++
			if known := r.cell.rows.Claim(c.Claim.ClaimID); known == nil || known.State != c.Claim.State || !known.UpdatedAt.Equal(c.Claim.UpdatedAt) {
				r.t.Errorf("%s: claim %+v is %+v in the table", r.cell.cfg.Replica, c.Claim, known)
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if n := len(r.cell.rows.LiveClaims()); n != claims {
		r.t.Errorf("%s: the table has %d claims, the shard %d", r.cell.cfg.Replica, n, claims)
	}
}
