package liveness

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

const (
	// logEvery is the least time between two lines about hosts that went down or came back; one line
	// summarizes the changes since the last.
	logEvery = 10 * time.Second
	// maxNames is how many hosts such a line names.
	maxNames = 3
)

// OutageLog logs which hosts went down or came back since its last line. A host that did both in
// between is not logged.
type OutageLog struct {
	live *Tracker
	// name gives a host's service host.
	name func(uuid string) string
	// imported reports whether a host is imported: the silence of such a host is no news.
	imported func(uuid string) bool
	// tables reports whether Nova's tables answer for the cell, not its agents.
	tables func() bool
	log    *slog.Logger

	last time.Time
	down map[string]struct{}
}

// NewOutageLog makes a log of a tracker's outages; the functions are described at the fields of
// OutageLog.
func NewOutageLog(l *Tracker, name func(uuid string) string, imported func(uuid string) bool, tables func() bool, log *slog.Logger) *OutageLog {
	return &OutageLog{live: l, name: name, imported: imported, tables: tables, log: log}
}

// LogChanges writes at most one line: an error if no host is up any more and the cell's agents answer
// for it, a warning if hosts went down, and otherwise the information that hosts came back. It is not
// safe for concurrent use.
func (o *OutageLog) LogChanges(ctx context.Context) {
	now := o.live.now()
	if !o.last.IsZero() && now.Sub(o.last) < logEvery {
		return
	}
	down, hosts := o.live.DownHosts()
	for uuid := range down {
		if o.imported(uuid) {
			delete(down, uuid)
			hosts--
		}
	}
	went, back := without(down, o.down), slices.DeleteFunc(without(o.down, down), o.imported)
	if len(went) == 0 && len(back) == 0 {
		o.down = down
		return
	}
	o.last, o.down = now, down
	level, message, named := slog.LevelInfo, "hosts came back", back
	if len(went) > 0 {
		level, message, named = slog.LevelWarn, "hosts went down", went
	}
	up := hosts - len(down)
	if up == 0 && !o.tables() {
		level, message = slog.LevelError, "no host of the cell is up: nothing can be placed in it until agents report again"
	}
	o.log.Log(ctx, level, message, "went_down", len(went), "came_back", len(back), "up", up, "hosts", hosts, "names", o.few(named))
}

// few lists the names of the first maxNames hosts.
func (o *OutageLog) few(uuids []string) string {
	names := make([]string, len(uuids))
	for i, uuid := range uuids {
		names[i] = o.name(uuid)
	}
	slices.Sort(names)
	if more := len(names) - maxNames; more > 0 {
		names = append(names[:maxNames], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// without gives the elements of a that are not in b.
func without(a, b map[string]struct{}) []string {
	var out []string
	for k := range a {
		if _, both := b[k]; !both {
			out = append(out, k)
		}
	}
	return out
}
