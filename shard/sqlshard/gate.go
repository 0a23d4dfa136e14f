package sqlshard

import (
	"context"

	"github.com/jackc/pgx/v5"

	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// gateOf gives the gate in the connection's transaction; nil for none.
func gateOf(ctx context.Context, c *pgx.Conn) (*shard.Gate, error) {
	gates, err := bodiesOf(ctx, c, "gate", rowcodec.Gate, readGate)
	if err != nil || len(gates) == 0 {
		return nil, err
	}
	return gates[0], nil
}

// gateRow writes the gate; a nil body means no change.
func (w *writes) gateRow(body []byte) {
	switch {
	case body == nil:
	case w.before.gate != nil:
		w.queue(putGate, body)
	default:
		w.queue(insertGate, body)
	}
}

func (l *loading) gate(ctx context.Context) error {
	g, err := gateOf(ctx, l.conn)
	if err != nil || g == nil {
		return err
	}
	return l.visit(shard.Change{Gate: g})
}
