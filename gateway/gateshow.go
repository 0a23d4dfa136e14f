package gateway

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/telemetry"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// showGate puts into a row, which has what the cell says of itself, what this gateway
// knows of its gate: while that is not NATIVE the hosts, and what they hold, are those of
// the legacy rows, and the cell is only available when they can be answered from.
func (g *Gateway) showGate(row *cellgatev1.Cell, c *cell) {
	if c.gate == nil {
		if s := row.GetGate().GetState(); row.Available && (s == cellgatev1.Gate_LEGACY || s == cellgatev1.Gate_SHADOW) {
			row.Available, row.Reason = false, "its gate is "+s.String()+", and this gateway has no legacy database for it (gateway.legacy)"
		}
		return
	}
	v := c.gate.view()
	if v.known == nil {
		row.Gate = &cellgatev1.Gate{Reason: reasonOf(v.err)}
	} else {
		row.Gate = proto.CloneOf(v.known.Gate)
	}
	if c.gate.disabledByNova() {
		addReason(row, disabledInNova)
	}
	if why := c.gate.noBeats(); why != "" {
		if v.err == nil { // else it says so
			addReason(row, "this gateway's legacy database tells nothing of now: "+why)
		}
		if c.gate.importer != nil {
			addReason(row, "nothing is imported from it")
		}
	}
	switch {
	case v.standIn:
		if t := c.gate.noImports.Load(); t != nil {
			addReason(row, "since "+t.since.UTC().Format(time.RFC3339)+" "+reasonOf(c.gate.notImported(t.err)))
		}
		s := v.gate.parts.StandIn.Summary()
		t := s.GetTotals()
		row.Hosts, row.HostsUp, row.Resources = t.GetHosts(), t.GetHostsUp(), t.GetResources()
		row.AvailabilityZones, row.TableVersion = g.zonesOf(s), t.GetTableVersion()
	case v.err != nil:
		if row.Available {
			row.Available = false
			addReason(row, reasonOf(v.err))
		}
		row.Hosts, row.HostsUp, row.Resources, row.AvailabilityZones, row.TableVersion = 0, 0, nil, nil, ""
	}
}

func addReason(row *cellgatev1.Cell, why string) {
	row.Reason = strings.TrimPrefix(row.GetReason()+"; "+why, "; ")
}

// readLegacy gives what is to be told of each cell's legacy rows that were ever read.
func (g *Gateway) readLegacy(each func(telemetry.LegacyReading)) {
	for _, c := range g.cells {
		if c.gate == nil {
			continue
		}
		rows := c.gate.rows.Load()
		if rows == nil {
			continue
		}
		r := telemetry.LegacyReading{Cell: c.cfg.Name, Age: g.now().Sub(rows.at)}
		if v := c.gate.view(); v.standIn {
			t := v.gate.parts.StandIn.Summary().GetTotals()
			r.Answers, r.Hosts, r.HostsUp = true, int64(t.GetHosts()), int64(t.GetHostsUp())
		}
		each(r)
	}
}
