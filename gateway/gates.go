package gateway

import (
	"context"
	"strings"
	"sync"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/proto"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/legacy/gatewatch"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// gates are those of the cells under upgrade. The gate of any other cell is nil.
type gates map[*cellclient.Cell]*gatewatch.Gate

func newGates(g *Gateway, parts map[string]gatewatch.Parts) gates {
	out := gates{}
	for _, c := range g.cells.All {
		if p, ok := parts[c.Name()]; ok {
			out[c] = gatewatch.New(c, p, ulid.MustNew(ulid.Timestamp(g.now()), ulid.DefaultEntropy()).String(), g.cfg.Name, g.log, g.now)
		}
	}
	return out
}

// ReadNova starts a read of a cell's Nova tables at once, or of all cells' tables if cell is
// empty. It is called when Nova notifies that hosts, instances or aggregates changed. It never
// blocks.
func (g *Gateway) ReadNova(cell string) {
	for c, w := range g.gates {
		if cell == "" || c.Name() == cell {
			w.ReadNow()
		}
	}
}

// NovaTransport gives the transport_url of a cell's own message bus from cell_mappings; ""
// while it is not known.
func (g *Gateway) NovaTransport(cell string) string {
	if w := g.gates[g.cells.Named(cell)]; w != nil {
		return w.TransportURL()
	}
	return ""
}

// watch watches the gates until ctx ends.
func (gs gates) watch(ctx context.Context) {
	var all sync.WaitGroup
	for _, w := range gs {
		all.Go(func() { w.Run(ctx) })
	}
	all.Wait()
}

// first waits until each gate has read its rows once, or did not in time (Gate.AwaitFirst).
func (gs gates) first() {
	for _, w := range gs {
		w.AwaitFirst()
	}
}

// Disabled says why Nova's own scheduler leaves a cell out; "" if it does not.
func (gs gates) Disabled(c *cellclient.Cell) string {
	if gs[c].DisabledByNova() {
		return disabledInNova
	}
	return ""
}

// disabledInNova is the reason shown for a cell that Nova's own scheduler leaves out.
const disabledInNova = "disabled in Nova's cell_mappings"

// Accept refuses an answer that names no gate if the cell has a gate, or may get one: the cell's table may be empty.
// This gateway's first report creates the gate, and an answer made before that report may arrive after it.
func (gs gates) Accept(c *cellclient.Cell, answer *cellv1.Proposal) error {
	w := gs[c]
	if w == nil || answer.GetGate() != cellgatev1.Gate_STATE_UNSPECIFIED {
		return nil
	}
	if known := w.LastKnown(); known == nil || known.GetEpoch() > 0 { // a cell without a gate is taken as NATIVE, of epoch 0
		return fault.New(fault.CellUnavailable, "%s", w.NotKnown())
	}
	return nil
}

// Source gives where a cell's candidates come from, by the gate state s that its answer named, and why if they come
// from Nova's tables. If the cell did not answer, s is unspecified, and the last known state decides.
func (gs gates) Source(c *cellclient.Cell, s cellgatev1.Gate_State) (from cellgatev1.CellSource, why string) {
	if s == cellgatev1.Gate_STATE_UNSPECIFIED {
		s = gs.known(c).GetState()
	}
	if s == cellgatev1.Gate_LEGACY || s == cellgatev1.Gate_SHADOW {
		return cellgatev1.CellSource_LEGACY, gs.whyLegacy(c)
	}
	return cellgatev1.CellSource_NATIVE, ""
}

// known gives the last known gate of a cell, from its gate's reports or its summary; nil if neither has one.
func (gs gates) known(c *cellclient.Cell) *cellgatev1.Gate {
	if w := gs[c]; w != nil {
		if known := w.LastKnown(); known != nil {
			return known
		}
	}
	return c.LastSummary().GetTotals().GetGate()
}

// whyLegacy gives the reason why a cell's hosts come from Nova's tables.
func (gs gates) whyLegacy(c *cellclient.Cell) string {
	known := gs.known(c)
	text := "the gate is " + known.GetState().String()
	switch {
	case gs[c].Only():
		text = "the gate is LEGACY: the cell has no scheduler (legacy_only), and other gateways' choices are not seen"
	case known.GetPin() != cellgatev1.Gate_STATE_UNSPECIFIED:
		text += ", pinned by an operator"
		if why := known.GetPinReason(); why != "" {
			text += ": " + why
		}
	case len(known.GetWaitsFor()) > 0:
		text += ", and waits for: " + strings.Join(known.GetWaitsFor(), "; ")
	case known.GetReason() != "":
		text += ": " + known.GetReason()
	}
	return text
}

// showGate adds what this gateway knows of a cell's gate to the row that the cell gave of
// itself.
func (g *Gateway) showGate(row *cellgatev1.Cell, c *cellclient.Cell) {
	w := g.gates[c]
	if w == nil {
		return
	}
	if known := w.LastKnown(); known != nil {
		row.Gate = proto.CloneOf(known)
	} else {
		row.Gate = &cellgatev1.Gate{Reason: w.NotKnown()}
	}
	if why := g.gates.Disabled(c); why != "" {
		addReason(row, why)
	}
	for _, why := range w.Troubles() {
		addReason(row, why)
	}
}

func addReason(row *cellgatev1.Cell, why string) {
	row.Reason = strings.TrimPrefix(row.GetReason()+"; "+why, "; ")
}

// readLegacy passes the age of each cell's legacy rows to each; a cell whose rows were never read is left out.
func (g *Gateway) readLegacy(each func(telemetry.LegacyReading)) {
	for c, w := range g.gates {
		if age, ok := w.RowsAge(); ok {
			each(telemetry.LegacyReading{Cell: c.Name(), Age: age})
		}
	}
}
