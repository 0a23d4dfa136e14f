package placement

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Provider is a resource provider. UUIDs are compared as text.
type Provider struct {
	UUID string
	// Parent is the uuid of another provider of the tree; empty for the root.
	Parent string
	// Traits, Aggregates (uuids) and Inventories (by class) are sorted in a Tree.
	Traits, Aggregates []string
	Inventories        []Inventory
}

// Inventory is a provider's inventory of a class, and the amount that consumers hold.
type Inventory struct {
	Class                                       string
	Total, Reserved, MinUnit, MaxUnit, StepSize int64
	AllocationRatio                             float64
	Used                                        int64
}

// Capacity is the greatest amount that consumers can hold together.
func (i *Inventory) Capacity() int64 { return Capacity(i.Total, i.Reserved, i.AllocationRatio) }

// Capacity is (total - reserved) * ratio without its fraction, as Placement shows it
// (placement/objects/inventory.py, capacity). It is negative if reserved is above total. A product beyond an int64 is
// the largest int64. Below 0 it is at least half the smallest int64, so that amounts in use can be subtracted.
func Capacity(total, reserved int64, ratio float64) int64 {
	capacity := float64(total-reserved) * ratio
	if capacity >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(max(capacity, math.MinInt64/2))
}

// fits reports whether one consumer can take the amount now.
func (i *Inventory) fits(amount int64) bool {
	return i.MinUnit <= amount && amount%i.StepSize == 0 && amount <= i.room()
}

// room is the greatest amount that one consumer can take now, apart from min_unit and step_size.
func (i *Inventory) room() int64 { return min(i.MaxUnit, i.Capacity()-i.Used) }

// Inventory is the provider's inventory of a class; nil for none.
func (p *Provider) Inventory(class string) *Inventory {
	for i := range p.Inventories {
		if p.Inventories[i].Class == class {
			return &p.Inventories[i]
		}
	}
	return nil
}

// Tree is a root provider and all below it. It never changes.
type Tree struct {
	// providers has the root first, and each provider directly before its subtree.
	providers []Provider
	// ends is, for each provider, the end of its subtree.
	ends []int32
	// sharing are the numbers of the providers that share by aggregates.
	sharing []int32
	// stocks are all inventories, sorted by class, then by provider.
	stocks []stock
	shape  shape
}

// stock is an inventory and the number of its provider.
type stock struct {
	*Inventory
	provider int32
}

// shape is equal for trees that differ only in uuids.
type shape [sha256.Size]byte

// SharingTrait marks a provider whose inventories are shared with all trees that have a provider in one of its
// aggregates.
const SharingTrait = "MISC_SHARES_VIA_AGGREGATE"

// NewTree makes a tree of its providers, in any order. It refuses several roots or none, an unknown parent, a loop,
// duplicate uuids, duplicate classes of a provider, and a step below 1. It keeps the given slices, and sorts traits,
// aggregates and inventories in place.
func NewTree(providers []Provider) (*Tree, error) {
	children := make(map[string][]int, len(providers))
	seen := make(map[string]bool, len(providers))
	for i := range providers {
		p := &providers[i]
		if seen[p.UUID] {
			return nil, fmt.Errorf("provider %q is twice in its tree", p.UUID)
		}
		seen[p.UUID] = true
		children[p.Parent] = append(children[p.Parent], i)
		if err := p.normalize(); err != nil {
			return nil, fmt.Errorf("provider %q: %w", p.UUID, err)
		}
	}
	if n := len(children[""]); n != 1 {
		return nil, fmt.Errorf("a tree of %d providers has %d roots", len(providers), n)
	}
	t := &Tree{providers: make([]Provider, 0, len(providers)), ends: make([]int32, len(providers))}
	var add func(i int)
	add = func(i int) {
		at := len(t.providers)
		t.providers = append(t.providers, providers[i])
		for _, child := range children[providers[i].UUID] {
			add(child)
		}
		t.ends[at] = int32(len(t.providers))
	}
	add(children[""][0])
	if len(t.providers) != len(providers) {
		return nil, fmt.Errorf("%d of %d providers are not below the root %q", len(providers)-len(t.providers), len(providers), t.Root().UUID)
	}
	for i := range t.providers {
		if contains(t.providers[i].Traits, SharingTrait) {
			t.sharing = append(t.sharing, int32(i))
		}
	}
	for i := range t.providers {
		for j := range t.providers[i].Inventories {
			t.stocks = append(t.stocks, stock{&t.providers[i].Inventories[j], int32(i)})
		}
	}
	slices.SortStableFunc(t.stocks, func(a, b stock) int { return cmp.Compare(a.Class, b.Class) })
	t.shape = t.digest()
	return t, nil
}

func (t *Tree) digest() shape {
	var b []byte
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	number := func(n int64) { b = binary.AppendVarint(b, n) }
	texts := func(list []string) {
		number(int64(len(list)))
		for _, s := range list {
			text(s)
		}
	}
	for i := range t.providers {
		p := &t.providers[i]
		number(int64(t.ends[i]))
		texts(p.Traits)
		texts(p.Aggregates)
		number(int64(len(p.Inventories)))
		for _, inv := range p.Inventories {
			text(inv.Class)
			for _, n := range []int64{inv.Total, inv.Reserved, inv.MinUnit, inv.MaxUnit, inv.StepSize, inv.Used} {
				number(n)
			}
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(inv.AllocationRatio))
		}
	}
	return sha256.Sum256(b)
}

func (p *Provider) normalize() error {
	if p.UUID == "" {
		return fmt.Errorf("has no uuid")
	}
	slices.Sort(p.Traits)
	slices.Sort(p.Aggregates)
	slices.SortFunc(p.Inventories, func(a, b Inventory) int { return cmp.Compare(a.Class, b.Class) })
	for i := range p.Inventories {
		if p.Inventories[i].StepSize < 1 {
			return fmt.Errorf("step_size %d of %s is not positive", p.Inventories[i].StepSize, p.Inventories[i].Class)
		}
		if i > 0 && p.Inventories[i].Class == p.Inventories[i-1].Class {
			return fmt.Errorf("two inventories of %s", p.Inventories[i].Class)
		}
	}
	return nil
}

// stocksOf gives the inventories of a class.
func (t *Tree) stocksOf(class string) []stock {
	for i := range t.stocks {
		if t.stocks[i].Class == class {
			n := i + 1
			for n < len(t.stocks) && t.stocks[n].Class == class {
				n++
			}
			return t.stocks[i:n]
		}
	}
	return nil
}

// Root is the provider without a parent.
func (t *Tree) Root() *Provider { return &t.providers[0] }

func contains(sorted []string, s string) bool {
	_, ok := slices.BinarySearch(sorted, s)
	return ok
}
