package cell

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

const (
	// tellEvery is the least time between two lines about hosts that went down
	// or came back: what happens meanwhile is told together.
	tellEvery = 10 * time.Second
	// toldNames is how many hosts such a line names.
	toldNames = 3
)

// outages tells the log which hosts went down or came back since it last did. A
// host that did both in between is not told of.
type outages struct {
	live *liveness
	// name gives a host's service host.
	name func(uuid string) string
	// imported says that no agent speaks for a host: its silence is no news.
	imported func(uuid string) bool
	// tables says that Nova's tables answer for the cell, not its agents.
	tables func() bool
	log    *slog.Logger

	last time.Time
	down map[string]struct{}
}

func newOutages(l *liveness, name func(uuid string) string, imported func(uuid string) bool, tables func() bool, log *slog.Logger) *outages {
	return &outages{live: l, name: name, imported: imported, tables: tables, log: log}
}

// tell writes at most one line: an error when no host is up any more and the cell's
// agents answer for it, a warning when hosts went down, else the news that they came
// back. One goroutine calls it.
func (o *outages) tell(ctx context.Context) {
	now := o.live.now()
	if !o.last.IsZero() && now.Sub(o.last) < tellEvery {
		return
	}
	down, hosts := o.live.downHosts()
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

// few names some hosts, in the order of their names.
func (o *outages) few(uuids []string) string {
	names := make([]string, len(uuids))
	for i, uuid := range uuids {
		names[i] = o.name(uuid)
	}
	slices.Sort(names)
	if more := len(names) - toldNames; more > 0 {
		names = append(names[:toldNames], fmt.Sprintf("and %d more", more))
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
