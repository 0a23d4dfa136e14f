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
// a proposal names it, for as long as it was last asked for and keep. Tables
// share what did not change, so that a pin costs what changed since.
type versions struct {
	keep time.Duration
	max  int
	now  func() time.Time

	current atomic.Pointer[schedule.Table]

	mu     sync.Mutex
	life   string
	pinned map[uint64]*pinned
}

type pinned struct {
	table *schedule.Table
	until time.Time
}

func newVersions(cfg Config, now func() time.Time) *versions {
	v := &versions{keep: cfg.PinFor, max: cfg.MaxPinned, now: now, pinned: map[uint64]*pinned{}}
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
		p = &pinned{table: t}
		v.pinned[t.Version()] = p
	}
	p.until = v.now().Add(v.keep)
	return t, v.name(t)
}

// at gives the version of that name and pins it anew; a Gone fault when it is
// not kept any more.
func (v *versions) at(name string) (*schedule.Table, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	life, number, ok := cutLast(name)
	if !ok {
		return nil, fault.Invalid("table_version", "%q is not a table version", name)
	}
	now := v.now()
	p := v.pinned[number]
	if life != v.life || p == nil || !now.Before(p.until) {
		return nil, fault.New(fault.Gone, "table version %s is not kept any more", name)
	}
	p.until = now.Add(v.keep)
	return p.table, nil
}

// sweep drops what is over, and the oldest beyond the bound.
func (v *versions) sweep() {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	for number, p := range v.pinned {
		if !now.Before(p.until) {
			delete(v.pinned, number)
		}
	}
	for len(v.pinned) > v.max {
		oldest := ^uint64(0)
		for number := range v.pinned {
			oldest = min(oldest, number)
		}
		delete(v.pinned, oldest)
	}
}

// count is how many versions are pinned.
func (v *versions) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.pinned)
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
