package sqlshard

import (
	"context"

	"github.com/jackc/pgx/v5"

	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// scanGate reads the row of readGate; nil when there is none.
func scanGate(rows pgx.Rows) (*shard.Gate, error) {
	var found *shard.Gate
	var g shard.Gate
	var state, pin, returnTo string
	var since, heldSince, heldUntil int64
	_, err := pgx.ForEachRow(rows, []any{
		&state, &g.Epoch, &g.Revision, &since, &g.Reason, &pin, &g.PinReason, &returnTo, &heldSince, &heldUntil, &g.Falls,
	}, func() error {
		one := g
		one.State, one.Pin, one.ReturnTo = shard.GateState(state), shard.GateState(pin), shard.GateState(returnTo)
		one.Since, one.HeldSince, one.HeldUntil = rowcodec.Instant(since), rowcodec.Instant(heldSince), rowcodec.Instant(heldUntil)
		found = &one
		return nil
	})
	return found, err
}

// gateOf gives the gate as the transaction of a connection sees it.
func gateOf(ctx context.Context, c *pgx.Conn) (*shard.Gate, error) {
	rows, err := c.Query(ctx, readGate)
	if err != nil {
		return nil, err
	}
	return scanGate(rows)
}

// gateRow writes the gate; nil for no change.
func (w *writes) gateRow(g *shard.Gate) {
	if g == nil {
		return
	}
	sql := insertGate
	if w.before.gate != nil {
		sql = putGate
	}
	w.queue(sql, string(g.State), g.Epoch, g.Revision, rowcodec.Nanos(g.Since), g.Reason, string(g.Pin), g.PinReason, string(g.ReturnTo),
		rowcodec.Nanos(g.HeldSince), rowcodec.Nanos(g.HeldUntil), int64(g.Falls))
}

func (l *loading) gate(ctx context.Context) error {
	g, err := gateOf(ctx, l.conn)
	if err != nil || g == nil {
		return err
	}
	return l.visit(shard.Change{Gate: g})
}
