package simulation

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// askEvery is how often each replica is asked which claims its table has, also during faults.
const askEvery = time.Second

// place is the position of a row in a journal.
type place struct {
	lane shard.LaneID
	seq  uint64
}

// in reports whether a reader at a journal position has the row.
func (p place) in(at shard.Cursor) bool { return p.seq > 0 && at[p.lane] >= p.seq }

// following is a handle that records how far its replica's table has certainly come. The replica
// puts all entries of one read into the table before it begins the next read.
type following struct {
	shard.Store
	handle *handle
}

// Tail passes on.
func (f *following) Tail(ctx context.Context, after shard.Cursor, limit int) ([]shard.Entry, shard.Cursor, error) {
	f.handle.set(func(h *handle) { h.shown = h.read })
	entries, to, err := f.Store.Tail(ctx, after, limit)
	if err == nil && len(entries) < limit {
		f.handle.set(func(h *handle) { h.read = maps.Clone(to) })
	}
	return entries, to, err
}

// tableAt returns the journal position that the table has certainly reached, or nil if unknown.
func (h *handle) tableAt() shard.Cursor {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shown
}

// direct captures the registered server, to call it without a network.
type direct struct{ scheduler cellv1.CellSchedulerServer }

func (d *direct) RegisterService(_ *grpc.ServiceDesc, impl any) {
	if s, is := impl.(cellv1.CellSchedulerServer); is {
		d.scheduler = s
	}
}

// watchTables asks the tables of all replicas until ctx ends.
func (w *world) watchTables(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for i, c := range w.cells {
			for _, r := range c.replicas {
				if run := r.alive(); run != nil {
					w.askTable(ctx, r, run, w.checks.cells[i])
				}
			}
		}
	}
}

// askTable compares the claims of a replica's table with their newest rows, as far as the replica
// has certainly read these. Live claims are in the table, ended ones are not. Rows that change
// meanwhile are not compared.
func (w *world) askTable(ctx context.Context, r *replica, run *running, k *checkedCell) {
	at := run.handle.tableAt()
	if at == nil {
		return
	}
	rows := w.checks.rowsIn(k, at)
	consumers := map[string]bool{}
	for _, c := range rows {
		consumers[c.ConsumerUUID] = true
	}
	for some := range slices.Chunk(sortedKeys(consumers), 1000) {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		out, err := run.direct.scheduler.ProposeBatch(ctx, &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{{Limit: 1, Seed: 1, ConsumerUuids: some, Placement: placement(&cellv1.Placement{
			Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}}, Consume: &cellv1.Consumption{},
		})}}})
		cancel()
		if err != nil || out.GetProposals()[0].GetFailure() != nil {
			return // it cannot answer now
		}
		w.count("tables asked")
		w.checks.checked()
		has := map[string]*cellgatev1.Claim{}
		for _, c := range out.GetProposals()[0].GetClaims() {
			has[c.GetClaimId()] = c
		}
		w.checks.poll()
		now := w.checks.rowsIn(k, at)
		for _, id := range sortedKeys(rows) {
			c := rows[id]
			if now[id] != c || !slices.Contains(some, c.ConsumerUUID) {
				continue
			}
			switch got := has[id]; {
			case !c.State.Live() && got != nil:
				w.wrong("%s: its table has claim %s of %s (%s), and has read that it is %s", r.name, short8(id), c.ConsumerUUID, got.GetState(), c.State)
			case c.State.Live() && got == nil:
				w.wrong("%s: its table does not have claim %s of %s, and has read that it is %s", r.name, short8(id), c.ConsumerUUID, c.State)
			case c.State.Live() && (got.GetState().String() != string(c.State) || got.GetHostUuid() != c.HostUUID):
				w.wrong("%s: its table has claim %s of %s as %s on %s, and has read that it is %s on %s", r.name, short8(id), c.ConsumerUUID, got.GetState(), got.GetServiceHost(), c.State, c.ServiceHost)
			}
		}
	}
}

// rowsIn returns the newest rows of the claims that a reader at a journal position has.
func (k *checks) rowsIn(c *checkedCell, at shard.Cursor) map[string]*shard.Claim {
	k.mu.Lock()
	defer k.mu.Unlock()
	rows := map[string]*shard.Claim{}
	for id, p := range c.written {
		if p.in(at) {
			rows[id] = c.claims[id]
		}
	}
	return rows
}

// overFor returns the ended claims of a consumer that all replicas have certainly read as ended. No
// answer to a request that is sent from now on may name one.
func (k *checks) overFor(consumer string) map[string]bool {
	k.poll()
	k.mu.Lock()
	defer k.mu.Unlock()
	over := map[string]bool{}
	for _, c := range k.cells {
		for id, p := range c.written {
			claim := c.claims[id]
			if claim.ConsumerUUID == consumer && (claim.State == shard.Released || claim.State == shard.Rejected) && c.cell.allRead(p) && !k.claimOf(id).State.Live() {
				over[id] = true // and not live in another cell, which the release may not have reached
			}
		}
	}
	return over
}

// allRead reports whether the tables of all running replicas have certainly reached a journal
// position. A replica that starts later loads the newer rows.
func (c *simCell) allRead(p place) bool {
	for _, r := range c.replicas {
		if run := r.alive(); run != nil && !p.in(run.handle.tableAt()) {
			return false
		}
	}
	return true
}
