package replica

import (
	"maps"
	"slices"

	"cellgate/shard"
)

// treeIndex finds the provider trees that the Placement API shows.
type treeIndex struct {
	// roots are the roots of providers that are none, by uuid, and of all of them by name; names need not be unique
	// while a rename arrives in two parts.
	roots  map[string]string
	byName map[string]map[string]struct{}
	// names are the custom names, by the journal's newest entry.
	names map[shard.NameRef]struct{}
}

func newTreeIndex() treeIndex {
	return treeIndex{roots: map[string]string{}, byName: map[string]map[string]struct{}{}, names: map[shard.NameRef]struct{}{}}
}

// isShown reports whether the Placement API shows a tree: that of an importer is no report of nova-compute.
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

// TreeRow is a provider tree and what claims use of it; nil for nothing.
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
	slices.SortFunc(out, func(a, b TreeRow) int {
		if a.Host.UUID < b.Host.UUID {
			return -1
		}
		return 1
	})
	return out
}

// TreeOf gives the tree that a provider is in; ok is false when the Placement API shows no such provider.
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

// ProvidersNamed gives the uuids of the providers of a name.
func (r *Rows) ProvidersNamed(name string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.trees.byName[name]))
}

// CustomNames gives the names of a registry, sorted.
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
