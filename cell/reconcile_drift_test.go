package cell

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/cell/reconcile"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// byHand is a shard that something writes to of which nobody hears: the journal does not
// tell of the lane "hand".
type byHand struct{ *testStore }

func (s byHand) Tail(ctx context.Context, after shard.Cursor, limit int) ([]shard.Entry, shard.Cursor, error) {
	entries, to, err := s.testStore.Tail(ctx, after, limit)
	return slices.DeleteFunc(entries, func(e shard.Entry) bool { return e.Lane.Replica == "hand" }), to, err
}

// write does operations that nobody hears of.
func (s byHand) write(t *testing.T, ops ...shard.Op) {
	t.Helper()
	lane, err := s.Store.OpenLane(t.Context(), "hand")
	if err != nil {
		t.Fatal(err)
	}
	a, err := lane.Apply(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range a.Outcomes {
		if o.Refusal != nil {
			t.Fatalf("refused: %+v", o.Refusal)
		}
	}
}

// claimByHand takes VCPUs of a host for an hour.
func claimByHand(id string, consumer, host int, vcpus int64) shard.Op {
	return shard.Op{Claim: &shard.NewClaim{
		ClaimID: id, ConsumerUUID: consumerUUID(consumer), HostUUID: hostUUID(host), TTL: time.Hour,
		Allocations: []shard.Used{{ProviderUUID: hostUUID(host), ResourceClass: "VCPU", Amount: vcpus}},
	}}
}

// asTheShard checks that the table's rows are those of the shard.
func (r *testCell) asTheShard(store shard.Store) {
	r.t.Helper()
	claims := 0
	_, err := store.Load(context.Background(), func(c shard.Change) error {
		switch {
		case c.Host != nil:
			if row := r.cell.rows.Host(c.Host.UUID); row == nil || row.Host == nil || row.Host.Generation != c.Host.Generation || !shard.SameState(row.Host, c.Host) {
				r.t.Errorf("%s: host %+v is another in the table", r.cell.cfg.Replica, c.Host)
			}
		case c.Usage != nil:
			if row := r.cell.rows.Host(c.Usage.HostUUID); row == nil || !shard.SameUse(row.Usage, c.Usage) {
				r.t.Errorf("%s: usage %+v is another in the table", r.cell.cfg.Replica, c.Usage)
			}
		case c.Claim != nil:
			claims++
			if known := r.cell.rows.Claim(c.Claim.ClaimID); known == nil || !reconcile.SameClaim(known, c.Claim) {
				r.t.Errorf("%s: claim %+v is %+v in the table", r.cell.cfg.Replica, c.Claim, known)
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if n := len(r.cell.rows.LiveIDs()); n != claims {
		r.t.Errorf("%s: the table has %d claims, the shard %d", r.cell.cfg.Replica, n, claims)
	}
}

const tableDiffers = cellgatev1.Finding_TABLE_DIFFERS

// Rows that somebody wrote, and no journal told of, come into the table all the same.
func TestATableThatMissedAWriteReadsItAnew(t *testing.T) {
	for name, write := range map[string]func(s byHand, t *testing.T){
		"a claim": func(s byHand, t *testing.T) { s.write(t, claimByHand("k9", 9, 1, 5)) },
		"a claim's end": func(s byHand, t *testing.T) {
			s.write(t, shard.Op{Release: &shard.ClaimRef{ClaimID: "k1", ConsumerUUID: consumerUUID(1)}})
		},
		"a claim's transfer": func(s byHand, t *testing.T) {
			s.write(t, shard.Op{Transfer: &shard.Transfer{ClaimID: "k1", ConsumerUUID: consumerUUID(1), ToConsumer: consumerUUID(7)}})
		},
		"a claim's other host": func(s byHand, t *testing.T) {
			s.write(t, shard.Op{Swap: &shard.Swap{
				ClaimID: "k2", ConsumerUUID: consumerUUID(2), HostUUID: hostUUID(2), TTL: time.Hour,
				Allocations: []shard.Used{{ProviderUUID: hostUUID(2), ResourceClass: "VCPU", Amount: 1}},
			}})
		},
		"all of it": func(s byHand, t *testing.T) {
			s.write(t, shard.Op{Release: &shard.ClaimRef{ClaimID: "k1", ConsumerUUID: consumerUUID(1)}}, claimByHand("k8", 1, 2, 3))
			s.write(t, claimByHand("k9", 9, 1, 5))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := byHand{newStore(t)}
				one, two := start(t, store, named("r1"), soon), start(t, store, named("r2"), soon)
				boot(t, 1, 8, one, two)
				boot(t, 2, 8, one, two)
				one.must(newClaim("k1", 1, 1, 2), newClaim("k2", 2, 1, 1))
				time.Sleep(3 * lookEvery)
				one.stand()
				write(store, t)
				calm()
				for range 2 {
					time.Sleep(3 * lookEvery)
					for _, r := range []*testCell{one, two} {
						r.asTheShard(store)
						r.stand()
						if f := r.repaired(tableDiffers); len(f) == 0 || f[0].GetRepair() != "read anew from the shard" || f[0].GetDetail() == "" {
							t.Errorf("repaired %v", f)
						}
					}
				}
			})
		})
	}
}

// With repairs off the table stays as it is, and says so; an instance that it has twice
// is found too.
func TestATableThatMissedAWriteIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := byHand{newStore(t)}
		r := start(t, store, soon, func(c *Config) { c.ReconcileReportOnly = true })
		boot(t, 1, 8, r)
		boot(t, 2, 8, r)
		r.must(newClaim("k1", 1, 1, 2))
		store.write(t, shard.Op{Release: &shard.ClaimRef{ClaimID: "k1", ConsumerUUID: consumerUUID(1)}})
		r.must(newClaim("k2", 1, 2, 2))
		time.Sleep(found)
		stand := r.stand(cellgatev1.Finding_DOUBLED_CLAIM, tableDiffers)
		if f := stand[0]; f.GetClaimId() != "k1" || f.GetOtherClaimId() != "k2" || f.GetOtherHostUuid() != hostUUID(2) {
			t.Errorf("found %v", f)
		}
		if f := stand[1]; f.GetHostUuid() != hostUUID(1) || f.GetRepair() != "not read anew: cell.reconcile_repair is off" {
			t.Errorf("found %v", f)
		}
	})
}

// Claims that come and go all the time are no difference.
func TestATableThatIsOnItsWayIsNoFinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		one, two := start(t, store, named("r1"), soon), start(t, store, named("r2"), soon)
		boot(t, 1, 64, one, two)
		for n := range 400 {
			r := []*testCell{one, two}[n%2]
			id := "k" + consumerUUID(n)
			r.must(newClaim(id, n, 1, 1))
			time.Sleep(37 * time.Millisecond)
			other := []*testCell{two, one}[n%2]
			other.must(release(id, n))
			time.Sleep(13 * time.Millisecond)
		}
		for _, r := range []*testCell{one, two} {
			r.stand()
			if f := r.repaired(tableDiffers); len(f) > 0 {
				t.Errorf("repaired %v", f)
			}
		}
	})
}

// A host of which there are always some live claims, each for a moment: one that is
// released while its host is audited does not come back.
func TestAClaimReleasedWhileItsHostIsAuditedStaysReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), soon)
		boot(t, 1, 640, r)
		id := func(n int) string { return "k" + consumerUUID(n) }
		n := 0
		looks := 2 * lookEvery
		if os.Getenv("CELLGATE_LONG") != "" {
			looks = 8 * lookEvery
		}
		for begun := time.Now(); time.Since(begun) < looks; {
			n++
			r.must(newClaim(id(n), n, 1, 1))
			if n > 3 {
				r.must(release(id(n-3), n-3))
			}
			time.Sleep(11 * time.Millisecond)
			if n > 4 {
				if c := r.cell.rows.Claim(id(n - 4)); c != nil {
					t.Fatalf("after %v: claim %d, which was released, is %s in the table", time.Since(begun), n-4, c.State)
				}
			}
		}
		calm()
		if live := r.cell.rows.LiveIDs(); len(live) != 3 {
			t.Errorf("%d of %d claims are in the table: %v", len(live), n, live)
		}
		r.stand()
		if f := r.repaired(tableDiffers); len(f) > 0 {
			t.Errorf("repaired %v", f)
		}
	})
}

// A row that is not what the agent reported under its version is written anew by its
// agent.
func TestAHostsRowThatIsNotItsReportIsWrittenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store, soon)
		m := boot(t, 1, 8, r)
		time.Sleep(3 * lookEvery)
		r.stand()
		said := *r.cell.rows.Host(hostUUID(1)).Host
		other := said
		other.BootID = bootA
		wrong := said
		wrong.Providers = slices.Clone(said.Providers)
		wrong.Providers[0].Inventories = slices.Clone(said.Providers[0].Inventories)
		wrong.Providers[0].Inventories[0].Total, wrong.Providers[0].Inventories[0].MaxUnit = 64, 64
		byHand{store}.write(t, shard.Op{PutHost: &shard.PutHost{Host: other}}, shard.Op{PutHost: &shard.PutHost{Host: wrong}})
		calm()
		if p := r.propose(query(60)); p.GetPassed() != 1 {
			t.Fatal("the row that was written is not in the table")
		}
		time.Sleep(found)
		r.stand()
		if f := r.repaired(cellgatev1.Finding_HOST_DIFFERS); len(f) != 1 || f[0].GetRepair() == "" {
			t.Errorf("repaired %v", f)
		}
		if p := r.propose(query(60)); p.GetPassed() != 0 {
			t.Error("the row is as it was written")
		}
		if s, _ := m.host.State(); s.GetVersion() != 2 {
			t.Errorf("the agent is at version %d", s.GetVersion())
		}
	})
}
