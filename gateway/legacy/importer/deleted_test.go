package importer

import (
	"slices"
	"testing"
	"time"

	"cellgate/gateway/legacy/novadb"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// deletes marks the row of an instance as deleted, as Nova does.
func (n *nova) deletes(i int64) {
	n.put(i, func(r *novadb.Instance) { r.Deleted, r.Gone, r.DeletedAt, r.VMState = true, true, n.now, "deleted" })
}

// onAgent registers a host by an agent that knows its instances, with a request's confirmed claim for each of claims.
func (f *fakeCell) onAgent(host int64, confirmed time.Time, claims ...int64) *fakeHost {
	h := &fakeHost{agent: true, state: &agentv1.FullState{
		Cell: "cell1", HostUuid: hostID(host), Providers: []*agentv1.Provider{{Uuid: hostID(host)}},
	}}
	f.hosts[hostID(host)] = h
	for _, i := range claims {
		f.claims[instanceID(i)] = &fakeClaim{host: hostID(host), updated: confirmed}
	}
	return h
}

// Deleted rows of instances on an agent's host are sent to the cell until their claims have ended.
func TestDeletedRow_ClaimIsLive_SentUntilItEnds(t *testing.T) {
	n, c := newNova(1), newCell()
	h := c.onAgent(1, n.now, 1, 2, 3)
	n.on(1, 1)
	n.on(2, 1)
	m := importerOf(t, n)
	step(t, m, n, c)
	h.state.Instances = []*agentv1.Instance{{InstanceUuid: instanceID(2)}}
	n.deletes(1)
	n.deletes(2)
	r := step(t, m, n, c)
	if r.Released != 1 || c.claims[instanceID(1)] != nil || c.claims[instanceID(2)] == nil {
		t.Fatalf("of two deleted rows of which the host reports one: %d released, %v", r.Released, c.claims)
	}
	if c.claims[instanceID(3)] == nil {
		t.Error("a claim whose instance is in no row was released")
	}
	for range 8 {
		step(t, m, n, c)
	}
	ofTheFirst := 0
	for _, sent := range c.deletedSent {
		if slices.Contains(sent, instanceID(1)) {
			ofTheFirst++
		}
	}
	if ofTheFirst != clearAnswers {
		t.Errorf("the one without a claim was sent %d times, want %d: %v", ofTheFirst, clearAnswers, c.deletedSent)
	}
	if len(c.deletedSent) > 6 {
		t.Errorf("sent %d times in 9 steps: %v", len(c.deletedSent), c.deletedSent)
	}
	h.state.Instances = nil
	for range 16 {
		step(t, m, n, c)
	}
	if c.claims[instanceID(2)] != nil {
		t.Error("its host does not report it any more, and its claim is there")
	}
	sent := len(c.deletedSent)
	n.now = n.now.Add(5 * time.Minute)
	for range 40 {
		step(t, m, n, c)
	}
	if len(c.deletedSent) != sent || len(m.known.deleted) != 0 {
		t.Errorf("sent %d times more, %d are kept", len(c.deletedSent)-sent, len(m.known.deleted))
	}
}

// Another gateway that read older rows may adopt an instance again after its claim ended. This claim ends, too.
func TestDeletedRow_ClaimIsAdoptedAfterItsEnd_ReleasedAgain(t *testing.T) {
	n, c := newNova(1), newCell()
	c.onAgent(1, n.now, 1)
	n.on(1, 1)
	m := importerOf(t, n)
	step(t, m, n, c)
	n.deletes(1)
	step(t, m, n, c)
	c.claims[instanceID(1)] = &fakeClaim{host: hostID(1), updated: n.now.Add(-time.Minute)}
	step(t, m, n, c)
	if c.claims[instanceID(1)] != nil {
		t.Error("the claim that came after the end is there")
	}
}

// The claim may be a little newer than the deletion of its instance's row, which is the last write to the table. The
// next pass releases the claim, without waiting until heartbeats are ten minutes newer.
func TestDeletedRow_TableIsStill_NewerClaimIsReleasedByTheNextPass(t *testing.T) {
	n, c := newNova(1), newCell()
	c.onAgent(1, n.now, 1)
	n.on(1, 1)
	m := importerOf(t, n)
	step(t, m, n, c)
	n.deletes(1)
	c.hosts[hostID(1)].state.Instances = nil
	c.claims[instanceID(1)] = &fakeClaim{host: hostID(1), updated: n.now.Add(3 * time.Second)}
	step(t, m, n, c)
	if c.claims[instanceID(1)] == nil {
		t.Fatal("the claim that is newer than the rows was released")
	}
	n.now = n.now.Add(10 * time.Second)
	n.beat = n.now
	for range 4 {
		step(t, m, n, c)
	}
	if c.claims[instanceID(1)] != nil {
		t.Error("ten seconds later the claim is there")
	}
}

// A hidden row, which a resize to another cell leaves, is not the end of its instance.
// Neither is a row that is live again.
func TestOnlyDeletedRowsAreSent(t *testing.T) {
	n, c := newNova(1), newCell()
	c.onAgent(1, n.now, 1, 2)
	n.on(1, 1)
	n.on(2, 1)
	m := importerOf(t, n)
	step(t, m, n, c)
	n.put(1, func(r *novadb.Instance) { r.Deleted = true })
	step(t, m, n, c)
	if len(c.deletedSent) != 0 {
		t.Errorf("sent %v", c.deletedSent)
	}
	held := c.onAgent(1, n.now)
	held.state.Instances = []*agentv1.Instance{{InstanceUuid: instanceID(2)}}
	n.deletes(2)
	step(t, m, n, c)
	n.put(2, func(r *novadb.Instance) {
		r.Deleted, r.Gone, r.DeletedAt, r.VMState = false, false, time.Time{}, "active"
	})
	step(t, m, n, c)
	sent := len(c.deletedSent)
	held.state.Instances = nil
	for range 8 {
		step(t, m, n, c)
	}
	if len(c.deletedSent) != sent || c.claims[instanceID(2)] == nil {
		t.Errorf("sent a row that is live again: %v", c.deletedSent[sent:])
	}
}

// Rows that may be older than a claim do not end it: newer ones do.
func TestDeletedRow_OlderThanTheClaim_SentAgain(t *testing.T) {
	n, c := newNova(1), newCell()
	n.on(1, 1)
	m := importerOf(t, n)
	step(t, m, n, c)
	n.deletes(1)
	c.onAgent(1, n.now.Add(time.Minute), 1)
	step(t, m, n, c)
	if c.claims[instanceID(1)] == nil {
		t.Fatal("a claim was released by older rows")
	}
	n.now = n.now.Add(2 * time.Minute)
	n.on(2, 1)
	for range 4 {
		step(t, m, n, c)
	}
	if c.claims[instanceID(1)] != nil {
		t.Error("rows are newer than the claim, and it is there")
	}
}
