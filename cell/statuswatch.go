package cell

import (
	"context"
	"log/slog"
	"slices"

	"cellgate/cell/gate"
	"cellgate/cell/replica"
	"cellgate/shard"
)

// statusBatch is how many service statuses are queued at once.
const statusBatch = 256

// statusWatch keeps the statuses of Nova's services, as gateways report them, in the shard.
type statusWatch struct {
	gate  *gate.Keeper
	rows  *replica.Rows
	queue *replica.Queue
	log   *slog.Logger
	// failing: the last write failed, and that was logged.
	failing bool
}

// run writes changed statuses after each report, until ctx ends.
func (w *statusWatch) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.gate.News:
		}
		err := w.write(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !w.failing:
			w.log.Warn("what Nova's services say of hosts was not written", "err", err)
		case err == nil && w.failing:
			w.log.Info("what Nova's services say of hosts is written again")
		}
		w.failing = err != nil
	}
}

// write writes the statuses in which reports and rows differ. If it fails, the next report triggers
// another try.
func (w *statusWatch) write(ctx context.Context) error {
	changes := w.changes()
	for at := range slices.Chunk(changes, statusBatch) {
		ops := make([]shard.Op, len(at))
		for i := range at {
			ops[i] = shard.Op{SetNovaState: &at[i]}
		}
		if _, err := w.queue.DoAll(ctx, ops); err != nil {
			return err
		}
	}
	if len(changes) > 0 {
		first := &changes[0]
		w.log.Info("audit: Nova's services say otherwise of hosts", "hosts", len(changes), "first", first.HostUUID, "state", string(first.State), "reason", first.Reason)
	}
	return nil
}

// changes returns the reported statuses that the rows do not have.
func (w *statusWatch) changes() []shard.SetNovaState {
	rows := map[string]gate.HostStatus{}
	w.rows.Each(func(uuid string, row *shard.Host, admin *shard.AdminState) {
		rows[uuid] = gate.HostStatus{Row: row, Admin: admin}
	})
	return gate.StatusChanges(w.gate.ReadableReports(), rows, w.gate.Now(), w.gate.MaxLag())
}
