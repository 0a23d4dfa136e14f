package cell

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cellgate/internal/fault"
	"cellgate/schedule"
	"cellgate/shard"
)

// versions keeps the newest table and the pinned ones. A version is pinned when
// a proposal names it, for as long as it was last asked for and keep. Whole tables
// share what did not change, so that a pin costs what changed since.
type versions struct {
	keep time.Duration
	max  int
	now  func() time.Time

	current atomic.Pointer[schedule.Table]

	mu     sync.Mutex
	life   string
	pinned map[uint64]*pinned
	// parts are tables of some hosts (cold.go), by numbers of their own; lastPart is the
	// newest's.
	parts    map[uint64]*pinned
	lastPart uint64
}

type pinned struct {
	version
	until time.Time
}

// ofParts stands behind the life's name in the names of parts.
const ofParts = "~"

// maxPartHosts bounds the hosts in all parts together.
const maxPartHosts = 1 << 16

func newVersions(cfg Config, now func() time.Time) *versions {
	v := &versions{keep: cfg.PinFor, max: cfg.MaxPinned, now: now, pinned: map[uint64]*pinned{}, parts: map[uint64]*pinned{}}
	v.current.Store(schedule.NewTable())
	return v
}

// born names this life of the replica; versions of another one are GONE.
func (v *versions) born(lane shard.LaneID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.life = fmt.Sprintf("%s-%d", lane.Replica, lane.Life)
}

// publish makes t the newest.
func (v *versions) publish(t *schedule.Table) {
	v.current.Store(t)
	v.sweep()
}

// newest pins and gives the newest version, and its name.
func (v *versions) newest() (*schedule.Table, string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.current.Load()
	p := v.pinned[t.Version()]
	if p == nil {
		p = &pinned{version: version{table: t}}
		v.pinned[t.Version()] = p
	}
	p.until = v.now().Add(v.keep)
	return t, v.name(t)
}

// pin keeps a part and gives its name.
func (v *versions) pin(of version) string {
	v.mu.Lock()
	v.lastPart++
	n := v.lastPart
	v.parts[n] = &pinned{version: of, until: v.now().Add(v.keep)}
	name := v.life + ofParts + "." + strconv.FormatUint(n, 10)
	v.mu.Unlock()
	v.sweep()
	return name
}

// at gives the version of that name and pins it anew; a Gone fault when it is
// not kept any more.
func (v *versions) at(name string) (version, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	life, number, ok := cutLast(name)
	if !ok {
		return version{}, fault.Invalid("table_version", "%q is not a table version", name)
	}
	now := v.now()
	var p *pinned
	switch life {
	case v.life:
		p = v.pinned[number]
	case v.life + ofParts:
		p = v.parts[number]
	}
	if p == nil || !now.Before(p.until) {
		return version{}, fault.New(fault.Gone, "table version %s is not kept any more", name)
	}
	p.until = now.Add(v.keep)
	return p.version, nil
}

// sweep drops what is over, and the oldest beyond the bounds.
func (v *versions) sweep() {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, hosts := v.now(), 0
	for _, kept := range []map[uint64]*pinned{v.pinned, v.parts} {
		for number, p := range kept {
			if !now.Before(p.until) {
				delete(kept, number)
			}
		}
		for len(kept) > v.max {
			delete(kept, oldest(kept))
		}
	}
	for _, p := range v.parts {
		hosts += p.table.Len()
	}
	for hosts > maxPartHosts && len(v.parts) > 1 {
		n := oldest(v.parts)
		hosts -= v.parts[n].table.Len()
		delete(v.parts, n)
	}
}

func oldest(of map[uint64]*pinned) uint64 {
	first := ^uint64(0)
	for number := range of {
		first = min(first, number)
	}
	return first
}

// count is how many versions are pinned.
func (v *versions) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.pinned) + len(v.parts)
}

func (v *versions) name(t *schedule.Table) string {
	return v.life + "." + strconv.FormatUint(t.Version(), 10)
}

func cutLast(name string) (life string, number uint64, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(name[i+1:], 10, 64)
	return name[:i], number, err == nil
}
