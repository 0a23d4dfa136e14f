package importer

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
)

// Searches find instances on hosts that have no claim, also those whose rows cannot be imported. The settled time is
// that of the search before the first that found an instance that still has no claim.
func TestLooksForInstancesWithoutAClaim(t *testing.T) {
	n, cell := newNova(2), newCell()
	cell.agents(1)
	n.services[1].Version, n.services[2].Version = 60, 60
	n.on(1, 1)
	n.on(2, 2)
	n.on(3, 1)
	n.put(3, func(r *novadb.Instance) { r.Incomplete = true })
	n.on(4, 7) // no host
	n.now = n.now.Add(time.Hour)
	m := importerOf(t, n)
	start := n.now
	search := func(at time.Duration, wantSettled time.Duration, wantLasting int, want ...string) {
		t.Helper()
		x := n.snapshot()
		if _, err := m.Step(t.Context(), x, cell); err != nil {
			t.Fatal(err)
		}
		cell.now = start.Add(at)
		u, err := m.FindUnclaimed(t.Context(), x, cell)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, i := range u.Found {
			found = append(found, fmt.Sprintf("%s on %s %v", i.UUID, i.Host, i.Lasting))
			if i.HostUUID != hostID(1) && i.HostUUID != hostID(2) {
				t.Errorf("%v is on no host", i)
			}
		}
		settled := u.Settled.Sub(start)
		if wantSettled < 0 && !u.Settled.IsZero() || wantSettled >= 0 && settled != wantSettled || u.Lasting != wantLasting || fmt.Sprint(found) != fmt.Sprint(want) {
			t.Errorf("at %v: settled %v, %d lasting, %v; want %v, %d, %v", at, settled, u.Lasting, found, wantSettled, wantLasting, want)
		}
	}
	one, three := instanceID(1)+" on host1 ", instanceID(3)+" on host1 "
	search(10*time.Second, -1, 0, one+"false", three+"false")
	search(20*time.Second, -1, 2, one+"true", three+"true")
	cell.claims[instanceID(1)] = &fakeClaim{host: hostID(1)}
	search(30*time.Second, -1, 1, three+"true")
	n.put(3, func(r *novadb.Instance) { r.Deleted, r.DeletedAt = true, n.now })
	search(40*time.Second, 40*time.Second, 0)
	delete(cell.claims, instanceID(1))
	search(50*time.Second, 40*time.Second, 0, one+"false")
	n.on(5, 1)
	search(60*time.Second, 40*time.Second, 1, one+"true", instanceID(5)+" on host1 false")
	cell.claims[instanceID(1)] = &fakeClaim{host: hostID(1)}
	search(70*time.Second, 50*time.Second, 1, instanceID(5)+" on host1 true")
	delete(n.rows, 1)
	cell.claims[instanceID(5)] = &fakeClaim{host: hostID(1)}
	search(80*time.Second, 80*time.Second, 0)
	if n := len(cell.asks); n != 8 || cell.asks[0] != 3 {
		t.Errorf("asked for %v instances", cell.asks)
	}
}

// An operator may release the claim of an instance that is on its host, and a shard may lose one. The instance is
// adopted again soon, though its row has not changed. If that is not possible, its host is sent once.
func TestFindUnclaimed_ClaimWasReleased_InstanceIsAdopted(t *testing.T) {
	n, cell := newNova(1), newCell()
	n.on(1, 1)
	n.now = n.now.Add(time.Hour)
	m := importerOf(t, n, func(c *Config) { c.FullEvery = 24 * time.Hour })
	sent := 0
	searches := func() {
		t.Helper()
		for range 5 {
			x := n.snapshot()
			r, err := m.Step(t.Context(), x, cell)
			if err == nil {
				_, err = m.FindUnclaimed(t.Context(), x, cell)
			}
			if err != nil {
				t.Fatal(err)
			}
			sent += r.Sent
		}
	}
	searches()
	delete(cell.claims, instanceID(1))
	if searches(); cell.claims[instanceID(1)] == nil || sent != 2 {
		t.Errorf("the claims are %v, and its host was sent %d times", cell.claims, sent)
	}
	n.put(2, func(r *novadb.Instance) { r.Host, r.Node, r.Incomplete = "host1", "node1", true })
	if searches(); sent != 3 {
		t.Errorf("the host of a row that cannot be imported was sent %d times", sent-2)
	}
}

// An instance whose node is none of its host's nodes has no claim. A search finds it by the name of the host, whatever
// node it names. An instance of a host without a row is not found.
func TestLooksFindInstancesOfAnotherNode(t *testing.T) {
	n, cell := newNova(2), newCell()
	n.services[1].Version, n.services[2].Version = 60, 60
	cell.agents(1)
	cell.agents(2)
	n.on(1, 1)
	n.put(1, func(r *novadb.Instance) { r.Node = "renamed" })
	n.on(2, 2)
	n.put(2, func(r *novadb.Instance) { r.Node = "" })
	n.on(3, 7)
	n.put(3, func(r *novadb.Instance) { r.Host = "HOST1" })
	n.addHost(3) // a second node of host 2: no node is neither
	n.hosts[3].ServiceHost = "host2"
	n.now = n.now.Add(time.Hour)
	m := importerOf(t, n)
	cell.now = n.now
	for range 2 {
		x := n.snapshot()
		if _, err := m.Step(t.Context(), x, cell); err != nil {
			t.Fatal(err)
		}
		u, err := m.FindUnclaimed(t.Context(), x, cell)
		if err != nil || len(u.Found) != 2 || u.Found[0].UUID != instanceID(1) || u.Found[0].Host != "host1" || u.Found[0].HostUUID != hostID(1) ||
			u.Found[1].UUID != instanceID(2) || u.Found[1].Host != "host2" {
			t.Errorf("%+v, %v", u, err)
		}
	}
}

// A cell without instances still says its time. A cell with many instances is asked in parts, and less often.
func TestLooksAtNoneAndAtMany(t *testing.T) {
	n, cell := newNova(1), newCell()
	cell.now = n.now
	m := importerOf(t, n)
	x := n.snapshot()
	step(t, m, n, cell)
	if u, err := m.FindUnclaimed(t.Context(), x, cell); err != nil || !u.Settled.Equal(cell.now) || len(u.Found) > 0 {
		t.Errorf("%+v, %v", u, err)
	}
	for i := range int64(findAtOnce + 5) {
		id := mustID(instanceID(i + 1))
		m.known.by[id] = &instance{uuid: id, at: place{"host1", "node1"}}
	}
	u, err := m.FindUnclaimed(t.Context(), x, cell)
	if err != nil || len(u.Found) != findAtOnce+5 || len(cell.asks) != 3 || cell.asks[1]+cell.asks[2] != findAtOnce+5 {
		t.Errorf("%d found, %v; asked for %v", len(u.Found), err, cell.asks)
	}
	if a, b := searchInterval(10), searchInterval(200_000); a > time.Second || b < 10*time.Second {
		t.Errorf("10 instances are searched every %v, 200,000 every %v", a, b)
	}
}

// A Worker reports what its last search found, and nothing while another gateway imports or
// after a search that failed.
func TestWorker_InstanceWithoutAClaim_IsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, cell := newNova(1), newCell()
		n.services[1].Version = 60
		cell.agents(1)
		n.on(1, 1)
		n.now = n.now.Add(time.Hour)
		cell.now = n.now
		var last Report
		var failure error
		w := NewWorker(importerOf(t, n), cell, func(r Report, err error) { last, failure = r, err })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		offer := func(x *novadb.Snapshot) {
			w.Offer(x, false)
			synctest.Wait()
		}
		if w.Unclaimed() != nil {
			t.Errorf("before a search: %v", w.Unclaimed())
		}
		if offer(n.snapshot()); last.Unclaimed != 0 || w.Unclaimed() == nil || w.Unclaimed().GetCount() != 0 {
			t.Errorf("after one: %+v, %v", last, w.Unclaimed())
		}
		want := instanceID(1) + " on host1"
		if offer(n.snapshot()); last.Unclaimed != 1 || len(last.FirstUnclaimed) != 1 || last.FirstUnclaimed[0] != want || w.Unclaimed().GetFirst()[0].GetUuid() != instanceID(1) {
			t.Errorf("after two: %+v, %v", last, w.Unclaimed())
		}
		if offer(nil); w.Unclaimed() != nil {
			t.Errorf("another imports: %v", w.Unclaimed())
		}
		if offer(n.snapshot()); w.Unclaimed().GetCount() != 1 {
			t.Errorf("it imports again: %v", w.Unclaimed())
		}
		cell.unfindable = fault.New(fault.CellUnavailable, "cut")
		if offer(n.snapshot()); w.Unclaimed() != nil || fault.KindOf(failure) != fault.CellUnavailable {
			t.Errorf("a search failed: %v, %v", w.Unclaimed(), failure)
		}
	})
}

// If a cell does not say which instances have no claim, its hosts are imported all the same, and as soon.
func TestAWorkerImportsThoughItCannotLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, cell := newNova(5), newCell()
		cell.unfindable = fault.New(fault.CellUnavailable, "cut")
		var failure error
		w := NewWorker(importerOf(t, n, func(c *Config) { c.StepHosts = 2 }), cell, func(_ Report, err error) { failure = err })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		w.Offer(n.snapshot(), false)
		time.Sleep(5 * betweenSteps)
		synctest.Wait()
		if len(cell.hosts) != 5 || failure == nil {
			t.Errorf("%d hosts are imported, and the error is %v", len(cell.hosts), failure)
		}
	})
}

var _ Cell = (*fakeCell)(nil)
