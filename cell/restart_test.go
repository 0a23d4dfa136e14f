package cell

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// A new incarnation on the same shard has the same hosts and claims. It forgets only which hosts
// sent messages, and gives them a grace.
func TestI8_ARestartLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		first := start(t, store)
		for n := range 5 {
			first.register(plainState(n, 8))
		}
		for n := range 10 {
			first.must(newClaim(fmt.Sprintf("k%d", n), n, n%5, int32(1+n%3)))
		}
		first.must(confirm("k3", 3), release("k4", 4))
		q := query(4)
		for n := range 10 {
			q.ConsumerUuids = append(q.ConsumerUuids, consumerUUID(n))
		}
		state := func(r *testCell) (*cellv1.Proposal, []proto.Message) {
			p := r.propose(q)
			hosts, err := r.cells.ListHosts(context.Background(), &cellv1.ListHostsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			claims, err := r.cells.ListClaims(context.Background(), &cellv1.ListClaimsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range hosts.GetHosts() {
				h.LastSeenAt = nil
			}
			return p, []proto.Message{hosts, claims}
		}
		before, listsBefore := state(first)
		first.stop()
		second := start(t, store)
		after, listsAfter := state(second)
		for i := range listsBefore {
			if !proto.Equal(listsBefore[i], listsAfter[i]) {
				t.Errorf("before %v\nafter  %v", listsBefore[i], listsAfter[i])
			}
		}
		old := query(4)
		old.TableVersion = before.GetTableVersion()
		if p := second.propose(old); p.GetFailure().GetReason() != string(fault.Gone) {
			t.Errorf("a version of the earlier incarnation gave %v", p)
		}
		before.TableVersion, after.TableVersion = "", ""
		if !proto.Equal(before, after) {
			t.Errorf("before %v\nafter  %v", before, after)
		}
		time.Sleep(55 * time.Second)
		synctest.Wait()
		if p := second.propose(query(1)); p.GetPassed() != 5 {
			t.Errorf("within their grace %d hosts pass", p.GetPassed())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if p := second.propose(query(1)); p.GetPassed() != 0 {
			t.Errorf("after their grace %d silent hosts pass", p.GetPassed())
		}
	})
}

func TestAnotherReplicasLaneIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		one := start(t, store)
		two := start(t, store, func(c *Config) { c.Replica = "r2" })
		one.register(plainState(1, 8))
		two.register(plainState(2, 8))
		one.must(newClaim("k1", 1, 1, 8))
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		for _, r := range []*testCell{one, two} {
			q := query(8)
			q.ConsumerUuids = []string{consumerUUID(1)}
			p := r.propose(q)
			if p.GetHosts() != 2 || p.GetPassed() != 1 || len(p.GetClaims()) != 1 {
				t.Errorf("%s sees %v", r.cell.cfg.Replica, p)
			}
		}
		two.must(release("k1", 1))
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if p := one.propose(query(8)); p.GetPassed() != 2 {
			t.Errorf("released by the other replica: %v", p)
		}
	})
}

func TestOwnEntriesAreNotReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		r.register(plainState(1, 8))
		for n := range 5 {
			r.must(newClaim(fmt.Sprintf("k%d", n), n, 1, 1))
			time.Sleep(130 * time.Millisecond) // never at the moment of a read
		}
		synctest.Wait()
		if store.tailed != 0 {
			t.Errorf("%d entries were read from the journal, all of them known", store.tailed)
		}
	})
}

func TestATrimmedJournalIsLoadedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		behind := start(t, store, func(c *Config) { c.TailEvery = 10 * time.Second })
		other := start(t, store, func(c *Config) { c.Replica = "r2" })
		behind.register(plainState(1, 8))
		time.Sleep(time.Second)
		behind.must(newClaim("k1", 1, 1, 2))
		time.Sleep(time.Second)
		other.register(plainState(2, 8))
		other.must(release("k1", 1), newClaim("k2", 2, 1, 3))
		store.trimAll(t)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		q := query(6)
		q.ConsumerUuids = []string{consumerUUID(1), consumerUUID(2)}
		p := behind.propose(q)
		if p.GetHosts() != 2 || p.GetPassed() != 1 || len(p.GetClaims()) != 1 || p.GetClaims()[0].GetClaimId() != "k2" {
			t.Errorf("after loading again: %v", p)
		}
		other.must(newClaim("k3", 3, 2, 8))
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if p := behind.propose(query(6)); p.GetPassed() != 0 {
			t.Errorf("the journal is not followed any more: %v", p)
		}
	})
}
