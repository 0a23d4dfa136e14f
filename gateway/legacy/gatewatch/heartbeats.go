package gatewatch

import (
	"context"

	"cellgate/gateway/legacy/novadb"
)

// logSilence logs when services fall silent in the rows, and when their heartbeats resume.
func (k *watcher) logSilence(ctx context.Context, x *novadb.Snapshot) {
	before, now := k.noBeats() != "", x.WhySilent(k.cfg.ServiceDownTime)
	switch {
	case now != "" && !before:
		k.log.WarnContext(ctx, "no service of a cell's legacy database has a new heartbeat. This gateway imports nothing from it, and the cell has no answer while its gate is LEGACY or SHADOW",
			"cell", k.cell.Name(), "why", now, "newest_heartbeat", x.Heartbeat, "server_time", x.At)
	case before && now == "":
		k.log.InfoContext(ctx, "services of a cell's legacy database have heartbeats again", "cell", k.cell.Name())
	}
}

// noBeats gives why the rows do not show the present state, however recently they were read: no
// service at all has a new heartbeat. Then nothing is imported from them, and no service is
// reported. It is "" if a service has one.
func (w *Gate) noBeats() string {
	rows := w.rows.Load()
	if rows == nil {
		return ""
	}
	return rows.WhySilent(w.cfg.ServiceDownTime)
}
