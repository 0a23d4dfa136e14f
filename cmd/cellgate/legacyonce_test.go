package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/fault"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// An instance takes its room at both gateways and in the shard from the moment it is selected. No
// more than the rest can be claimed. The rest can be claimed once two reads of Nova's tables show
// the instance; until then its host may seem fuller.
func TestABuildCountsOnce(t *testing.T) {
	t.Parallel() // each has a server of its own
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		t.Parallel()
		t.Run("rows", func(t *testing.T) { aBuildCountsOnce(t, k, false) })
		t.Run("shard", func(t *testing.T) { aBuildCountsOnce(t, k, true) })
	})
}

func aBuildCountsOnce(t *testing.T, k legacytest.Kind, claims bool) {
	refresh := 200 * time.Millisecond
	if text := os.Getenv("CELLGATE_REFRESH"); text != "" { // for measurements
		var err error
		if refresh, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	p := startLegacyPair(t, k, refresh, func(*legacytest.Database) {})
	for i := range p.conns {
		p.await(i, true, "at the start")
	}
	// watch checks for a while that no gateway finds room, or waits until both steadily find it.
	watch := func(when string, room bool, ask func(gateway int) error) {
		t.Helper()
		if room { // until both gateways have found it for a while
			right := time.Now()
			for until := right.Add(testwait.Limit); time.Since(right) < 5*refresh; hold(t.Context(), 20*time.Millisecond) {
				for i := range p.conns {
					if err := ask(i); err != nil {
						right = time.Now()
						if right.After(until) {
							t.Fatalf("%s: gateway %d finds no room: %v", when, i+1, err)
						}
					}
				}
			}
			return
		}
		began := time.Now()
		var wrong [2]time.Duration
		var first [2]string
		for last := began; last.Before(began.Add(max(time.Second, 5*refresh))); hold(t.Context(), 20*time.Millisecond) {
			for i := range p.conns {
				err := ask(i)
				kind := fault.KindOf(err)
				if err != nil && kind != fault.NoValidHost && kind != fault.CellUnavailable {
					t.Fatalf("%s: gateway %d: %v", when, i+1, err)
				}
				if kind == fault.CellUnavailable || err != nil { // the machine may stall for seconds
					continue
				}
				if wrong[i] += time.Since(last); first[i] == "" {
					first[i] = fmt.Sprintf("after %s: %v", time.Since(began), err)
				}
			}
			last = time.Now()
		}
		for i, d := range wrong {
			if d > 0 {
				t.Errorf("%s: gateway %d is wrong for %s, %s", when, i+1, d.Round(time.Millisecond), first[i])
			}
		}
	}
	dry := func(vcpus int32) func(int) error {
		return func(gateway int) error {
			_, err := p.chooseFor(gateway, true, vcpus)
			return err
		}
	}
	// real asks the shard whether it has room for half of the host. Only gateway 0 asks: the other
	// would see such a claim for a while after its end.
	real := func(gateway int) error {
		if gateway > 0 {
			return nil
		}
		resp, err := p.chooseFor(gateway, false, 4)
		if err != nil {
			return err
		}
		_, err = cellgatev1.NewClaimsClient(p.conns[0]).ReleaseClaim(t.Context(), &cellgatev1.ReleaseClaimRequest{
			ConsumerUuid: fmt.Sprintf("10000000-0000-4000-8000-%012d", p.asked), ClaimId: resp.GetDestinations()[0].GetSelected().GetClaimId(),
		})
		return err
	}
	ask := dry(4)
	if claims {
		ask = real
	}
	for n := range 2 {
		gateway := n
		if claims {
			gateway = 0
		}
		resp, err := p.chooseFor(gateway, false, 4)
		if err != nil {
			t.Fatalf("half %d: %v", n+1, err)
		}
		if resp.GetDestinations()[0].GetSelected().GetServiceHost() != "host1" {
			t.Fatalf("half %d is on %v", n+1, resp)
		}
		instance := fmt.Sprintf("10000000-0000-4000-8000-%012d", p.asked)
		now := p.nova.Now(t)
		p.nova.Insert(t, "instances", legacytest.Row{
			"id": n + 1, "uuid": instance, "deleted": 0, "vcpus": 4, "memory_mb": 1024, "root_gb": 1,
			"ephemeral_gb": 0, "instance_type_id": 1, "project_id": "p", "user_id": "u", "vm_state": "building", "created_at": now, "updated_at": now,
		})
		// instance_claim, and then the task_state. No read comes between them here.
		p.claimed(n+1, 4*(n+1))
		if n == 0 {
			watch("the first half is being built", true, ask)
			p.running(n + 1)
			watch("it runs", true, ask)
			continue
		}
		for i := range p.conns { // the other gateway sees the claim at its next query of the cell
			for until := time.Now().Add(testwait.Limit); ; hold(t.Context(), 20*time.Millisecond) {
				if _, err := p.chooseFor(i, true, 1); fault.KindOf(err) == fault.NoValidHost {
					break
				}
				if time.Now().After(until) {
					t.Fatalf("gateway %d finds room beside both", i+1)
				}
			}
		}
		watch("both are being built", false, dry(1))
	}
}

// claimed writes what nova-compute writes after it has claimed an instance. vcpus is the host's
// total in use then.
func (p *legacyPair) claimed(id, vcpus int) {
	p.Helper()
	tx, err := p.nova.DB.BeginTx(p.Context(), nil)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // without effect after a commit
	now := p.nova.Now(p)
	for _, s := range []struct {
		text string
		args []any
	}{
		{"UPDATE compute_nodes SET vcpus_used = " + p.nova.Mark(1) + ", updated_at = " + p.nova.Mark(2), []any{vcpus, now}},
		{"UPDATE instances SET host = 'host1', node = 'host1', task_state = 'networking', updated_at = " + p.nova.Mark(1) + " WHERE id = " + p.nova.Mark(2), []any{now, id}},
	} {
		if _, err := tx.ExecContext(p.Context(), s.text, s.args...); err != nil {
			p.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		p.Fatal(err)
	}
}

// running writes that an instance is built.
func (p *legacyPair) running(id int) {
	p.Helper()
	p.nova.Exec(p, fmt.Sprintf("UPDATE instances SET vm_state = 'active', task_state = NULL, updated_at = '%s' WHERE id = %d", p.nova.Now(p).Format(time.DateTime), id))
}
