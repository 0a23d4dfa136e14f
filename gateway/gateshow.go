package gateway

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"cellgate/gateway/cellclient"
	"cellgate/internal/telemetry"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// showGate puts into a row, which has what the cell says of itself, what this gateway
// knows of its gate.
func (g *Gateway) showGate(row *cellgatev1.Cell, c *cellclient.Cell) {
	w := g.gates[c]
	if w == nil {
		return
	}
	if known := w.known.Load(); known != nil {
		row.Gate = proto.CloneOf(known.Gate)
	} else {
		row.Gate = &cellgatev1.Gate{Reason: w.notKnown()}
	}
	if w.disabledByNova() {
		addReason(row, disabledInNova)
	}
	if why := w.unread.Load(); why != nil {
		addReason(row, "this gateway cannot read the legacy database: "+*why)
	}
	if why := w.noBeats(); why != "" {
		addReason(row, "this gateway's legacy database tells nothing of now: "+why)
		if w.importer != nil {
			addReason(row, "nothing is imported from it")
		}
	}
}

// notKnown says that it is not known where the gate is, and why.
func (w *gate) notKnown() string {
	text := "the cell has not said yet where its gate is"
	if why := w.unheard.Load(); why != nil {
		text += ": " + *why
	}
	return text
}

func addReason(row *cellgatev1.Cell, why string) {
	row.Reason = strings.TrimPrefix(row.GetReason()+"; "+why, "; ")
}

// readLegacy gives what is to be told of each cell's legacy rows that were ever read.
func (g *Gateway) readLegacy(each func(telemetry.LegacyReading)) {
	for _, c := range g.cells.All {
		w := g.gates[c]
		if w == nil {
			continue
		}
		rows := w.rows.Load()
		if rows == nil {
			continue
		}
		each(telemetry.LegacyReading{Cell: c.Name(), Age: g.now().Sub(rows.at)})
	}
}
