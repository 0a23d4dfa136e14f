package proposals

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cellgate/internal/fault"
	"cellgate/schedule"
)

// Versions holds the newest table, and each version that a proposal named until nobody has asked for it
// for a given time. Tables share unchanged parts, so a version costs only what changed since.
type Versions struct {
	keep time.Duration
	max  int
	now  func() time.Time

	current atomic.Pointer[schedule.Table]

	mu          sync.Mutex
	incarnation string
	whole       map[uint64]*keptVersion
	// parts are tables of some hosts, by their own numbers; lastPart is the number of the newest.
	parts    map[uint64]*keptVersion
	lastPart uint64
}

type keptVersion struct {
	Version
	until time.Time
}

// OfParts follows the incarnation in the names of parts.
const OfParts = "~"

// maxPartHosts bounds the hosts in all parts together.
const maxPartHosts = 1 << 16

// NewVersions begins with an empty table. A version is kept for keep after it was last asked for; at
// most most whole versions and most parts are kept.
func NewVersions(keep time.Duration, most int, now func() time.Time) *Versions {
	v := &Versions{keep: keep, max: most, now: now, whole: map[uint64]*keptVersion{}, parts: map[uint64]*keptVersion{}}
	v.current.Store(schedule.NewTable())
	return v
}

// SetIncarnation names the replica's incarnation. Versions that another incarnation named are GONE.
func (v *Versions) SetIncarnation(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.incarnation = name
}

// Current returns the newest table and does not keep it.
func (v *Versions) Current() *schedule.Table { return v.current.Load() }

// Publish makes t the newest.
func (v *Versions) Publish(t *schedule.Table) {
	v.current.Store(t)
	v.Sweep()
}

// Newest keeps and gives the newest version, and its name.
func (v *Versions) Newest() (*schedule.Table, string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.current.Load()
	p := v.whole[t.Version()]
	if p == nil {
		p = &keptVersion{Version: Version{Table: t}}
		v.whole[t.Version()] = p
	}
	p.until = v.now().Add(v.keep)
	return t, v.name(t)
}

// Keep keeps a part and returns its name.
func (v *Versions) Keep(of Version) string {
	v.mu.Lock()
	v.lastPart++
	n := v.lastPart
	v.parts[n] = &keptVersion{Version: of, until: v.now().Add(v.keep)}
	name := v.incarnation + OfParts + "." + strconv.FormatUint(n, 10)
	v.mu.Unlock()
	v.Sweep()
	return name
}

// At returns the version with a name and extends the time that it is kept. If it is no longer kept, At
// fails with a Gone fault.
func (v *Versions) At(name string) (Version, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	incarnation, number, ok := cutLast(name)
	if !ok {
		return Version{}, fault.Invalid("table_version", "%q is not a table version", name)
	}
	now := v.now()
	var p *keptVersion
	switch incarnation {
	case v.incarnation:
		p = v.whole[number]
	case v.incarnation + OfParts:
		p = v.parts[number]
	}
	if p == nil || !now.Before(p.until) {
		return Version{}, fault.New(fault.Gone, "table version %s is not kept any more", name)
	}
	p.until = now.Add(v.keep)
	return p.Version, nil
}

// Sweep drops expired versions, and the oldest ones beyond the bounds.
func (v *Versions) Sweep() {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, hosts := v.now(), 0
	for _, kept := range []map[uint64]*keptVersion{v.whole, v.parts} {
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
		hosts += p.Table.Len()
	}
	for hosts > maxPartHosts && len(v.parts) > 1 {
		n := oldest(v.parts)
		hosts -= v.parts[n].Table.Len()
		delete(v.parts, n)
	}
}

func oldest(of map[uint64]*keptVersion) uint64 {
	first := ^uint64(0)
	for number := range of {
		first = min(first, number)
	}
	return first
}

func (v *Versions) name(t *schedule.Table) string {
	return v.incarnation + "." + strconv.FormatUint(t.Version(), 10)
}

func cutLast(name string) (incarnation string, number uint64, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(name[i+1:], 10, 64)
	return name[:i], number, err == nil
}
