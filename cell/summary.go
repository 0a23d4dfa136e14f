package cell

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/cell/gate"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// GetSummary reports what the cell holds and could ever hold, computed once for each version of the
// table. It also reports the gate (without what it waits for), store time, and the binary's version.
// While the table is being loaded, it reports only whether the cell awaits verdicts, and the fields
// that need no table. It fails while the shard fails: gateways treat it as the check whether the cell
// can be used.
func (s *scheduler) GetSummary(ctx context.Context, _ *cellv1.GetSummaryRequest) (*cellv1.GetSummaryResponse, error) {
	if err := s.placing(); err != nil {
		return nil, err
	}
	out := &cellv1.GetSummaryResponse{
		Cell: s.cfg.Name, CellUuid: s.uuid, Replica: s.cfg.Replica, Loading: true,
		Totals: &cellgatev1.Cell{Cell: s.cfg.Name, CellUuid: s.uuid, Enabled: true, Available: true},
	}
	if !s.loading() {
		g := s.rows.TableGate.Load() // before the summary, whose table is as new then
		out = proto.CloneOf(s.newestSummary())
		if g != nil {
			out.Totals.Gate = s.gate.Message(g, gate.Judgement{})
			if why := s.table.Imports.WhyUnavailable(g); why != "" {
				out.Totals.Available, out.Totals.Reason = false, why
			}
		}
	}
	// The health service reports a store that returns no time.
	if t, err := s.store.Now(ctx); err == nil {
		out.StoreTime = timestamppb.New(t)
	}
	out.AwaitsVerdicts = s.agents.Verify.Awaits()
	out.MachineTime, out.Version = timestamppb.New(s.now()), s.cfg.Version
	return out, nil
}

func (c *Cell) newestSummary() *cellv1.GetSummaryResponse {
	c.summary.mu.Lock()
	defer c.summary.mu.Unlock()
	table, name := c.versions.Newest()
	if c.summary.newest == nil || c.summary.version != table.Version() {
		c.summary.recount(c.rows, c.live)
		out := c.summary.message()
		out.Cell, out.CellUuid, out.Replica = c.cfg.Name, c.uuid, c.cfg.Replica
		t := out.GetTotals()
		t.Cell, t.CellUuid, t.Enabled, t.Available, t.TableVersion = c.cfg.Name, c.uuid, true, true, name
		c.summary.newest, c.summary.version = out, table.Version()
	}
	return c.summary.newest
}
