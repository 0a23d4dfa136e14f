package replica

import (
	"maps"
	"slices"
	"strings"

	"cellgate/shard"
)

// treeIndex finds the provider trees that the Placement API shows.
type treeIndex struct {
	// roots has the root of each child provider, by uuid. byName has all providers by name; names need
	// not be unique while a rename arrives in two parts.
	roots  map[string]string
	byName map[string]map[string]struct{}
	// names are the custom names as of the newest journal entry.
	names map[shard.NameRef]struct{}
}

func newTreeIndex() treeIndex {
	return treeIndex{roots: map[string]string{}, byName: map[string]map[string]struct{}{}, names: map[shard.NameRef]struct{}{}}
}

// isShown reports whether the Placement API shows a tree. It does not show an importer's: nova-compute
// did not report it.
func isShown(h *shard.Host) bool {
	return h != nil && !h.Gone() && h.TreeSource() != shard.TreeOfImporter
}

func (x *treeIndex) add(h *shard.Host) {
	if !isShown(h) {
		return
	}
	for i := range h.Providers {
		p := &h.Providers[i]
		if p.UUID != h.UUID {
			x.roots[p.UUID] = h.UUID
		}
		if x.byName[p.Name] == nil {
			x.byName[p.Name] = map[string]struct{}{}
		}
		x.byName[p.Name][p.UUID] = struct{}{}
	}
}

func (x *treeIndex) drop(h *shard.Host) {
	if !isShown(h) {
		return
	}
	for i := range h.Providers {
		p := &h.Providers[i]
		if x.roots[p.UUID] == h.UUID {
			delete(x.roots, p.UUID)
		}
		delete(x.byName[p.Name], p.UUID)
		if len(x.byName[p.Name]) == 0 {
			delete(x.byName, p.Name)
		}
	}
}

func (x *treeIndex) setName(n *shard.CustomName) {
	if n.Gone {
		delete(x.names, n.NameRef)
		return
	}
	x.names[n.NameRef] = struct{}{}
}

// TreeRow is a provider tree and its usage by claims; Usage may be nil.
type TreeRow struct {
	Host  *shard.Host
	Usage *shard.Usage
}

// Trees gives every tree that the Placement API shows, by the root's uuid.
func (r *Rows) Trees() []TreeRow {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []TreeRow
	for _, row := range r.hosts {
		if h := row.Row(); isShown(h) {
			out = append(out, TreeRow{h, row.Usage})
		}
	}
	slices.SortFunc(out, func(a, b TreeRow) int { return strings.Compare(a.Host.UUID, b.Host.UUID) })
	return out
}

// TreeOf returns the tree of a provider; ok is false if the Placement API shows no such provider.
func (r *Rows) TreeOf(provider string) (t TreeRow, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	root, child := r.trees.roots[provider]
	if !child {
		root = provider
	}
	row := r.hosts[root]
	if row == nil || !isShown(row.Row()) {
		return TreeRow{}, false
	}
	return TreeRow{row.Row(), row.Usage}, true
}

// ProvidersNamed returns the uuids of the providers with a name.
func (r *Rows) ProvidersNamed(name string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.trees.byName[name]))
}

// CustomNames returns the custom names of a kind, sorted.
func (r *Rows) CustomNames(kind shard.NameKind) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []string
	for n := range r.trees.names {
		if n.Kind == kind {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}
