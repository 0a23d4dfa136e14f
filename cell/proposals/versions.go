package proposals

import (
	"strconv"
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
	kept        map[string]*keptVersion
	// last is the number of the version that was kept last.
	last uint64
}

type keptVersion struct {
	Version
	number uint64
	until  time.Time
}

// OfParts follows the incarnation in the names of parts.
const OfParts = "~"

// maxPartHosts bounds the hosts in all parts together.
const maxPartHosts = 1 << 16

// NewVersions begins with an empty table. A version is kept for keep after it was last asked for; at
// most most versions are kept.
func NewVersions(keep time.Duration, most int, now func() time.Time) *Versions {
	v := &Versions{keep: keep, max: most, now: now, kept: map[string]*keptVersion{}}
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
	name := v.incarnation + "." + strconv.FormatUint(t.Version(), 10)
	if p := v.kept[name]; p != nil {
		p.until = v.now().Add(v.keep)
	} else {
		v.put(name, Version{Table: t})
	}
	return t, name
}

// Keep keeps a part and returns its name.
func (v *Versions) Keep(of Version) string {
	v.mu.Lock()
	name := v.incarnation + OfParts + "." + strconv.FormatUint(v.last+1, 10)
	v.put(name, of)
	v.mu.Unlock()
	v.Sweep()
	return name
}

// put keeps a version. The caller holds mu.
func (v *Versions) put(name string, of Version) {
	v.last++
	v.kept[name] = &keptVersion{Version: of, number: v.last, until: v.now().Add(v.keep)}
}

// At returns the version with a name and extends the time that it is kept. If it is no longer kept, or
// another incarnation named it, At fails with a Gone fault.
func (v *Versions) At(name string) (Version, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	p := v.kept[name]
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
	for name, p := range v.kept {
		switch {
		case !now.Before(p.until):
			delete(v.kept, name)
		case p.Part != nil:
			hosts += p.Table.Len()
		}
	}
	for len(v.kept) > v.max || hosts > maxPartHosts && len(v.kept) > 1 {
		oldest := ""
		for name, p := range v.kept {
			if oldest == "" || p.number < v.kept[oldest].number {
				oldest = name
			}
		}
		if p := v.kept[oldest]; p.Part != nil {
			hosts -= p.Table.Len()
		}
		delete(v.kept, oldest)
	}
}
