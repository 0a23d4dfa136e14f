package gateway

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"cellgate/gateway/cellclient"
	"cellgate/internal/telemetry"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

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
