package schedule

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// clash is a key type with many equal hashes, in all bits or in the low ones.
type clash uint32

func (c clash) hash() uint64 {
	if c%3 == 0 {
		return 7
	}
	return uint64(c%8)<<58 | 7
}

func checkPmap[K pkey[K]](t *rapid.T, m pmap[K, int], want map[K]int) {
	got := map[K]int{}
	for k, v := range m.all() {
		got[k] = v
	}
	if m.n != len(want) || !maps.Equal(got, want) {
		t.Fatalf("map holds %v (n %d), want %v", got, m.n, want)
	}
	for k, v := range want {
		if g, ok := m.get(k); !ok || g != v {
			t.Fatalf("get %v = %v %v, want %v", k, g, ok, v)
		}
	}
}

// testPmap applies random changes under growing owners. Every map that was kept on the way must be
// unchanged at the end.
func testPmap[K pkey[K]](key func(uint32) K) func(*rapid.T) {
	return func(t *rapid.T) {
		type kept struct {
			m    pmap[K, int]
			want map[K]int
		}
		var m pmap[K, int]
		want := map[K]int{}
		var old []kept
		owner := rapid.Uint64Range(0, 1).Draw(t, "owner")
		span := rapid.SampledFrom([]uint32{3, 40, 400}).Draw(t, "span")
		for i := range rapid.IntRange(0, 300).Draw(t, "changes") {
			k := key(rapid.Uint32Range(0, span).Draw(t, "key"))
			switch rapid.IntRange(0, 5).Draw(t, "do") {
			case 0:
				if owner > 0 {
					owner++
				}
				old = append(old, kept{m, maps.Clone(want)})
			case 1, 2:
				m = m.del(k, owner)
				delete(want, k)
			default:
				m = m.set(k, i, owner)
				want[k] = i
			}
			if owner == 0 {
				old = append(old, kept{m, maps.Clone(want)})
			}
			if _, ok := m.get(key(span + 1)); ok {
				t.Fatal("found a key that was never set")
			}
		}
		checkPmap(t, m, want)
		for _, o := range old {
			checkPmap(t, o.m, o.want)
		}
	}
}

func TestPmapIsAMap(t *testing.T) {
	t.Run("numbers", rapid.MakeCheck(testPmap(func(n uint32) number { return number(n) })))
	t.Run("clashes", rapid.MakeCheck(testPmap(func(n uint32) clash { return clash(n) })))
	t.Run("names", rapid.MakeCheck(testPmap(func(n uint32) name { return name(rune(n)) })))
	t.Run("ids", rapid.MakeCheck(testPmap(func(n uint32) ID { return ID{byte(n >> 8), 15: byte(n)} })))
}

// A map's shape depends on its keys alone: keys that are added and deleted leave no nodes.
func TestPmapShrinks(t *testing.T) {
	nodes := func(m pmap[number, int]) int {
		var count func(n *pnode[number, int]) int
		count = func(n *pnode[number, int]) int {
			sum := 1
			for _, c := range n.children {
				sum += count(c)
			}
			return sum
		}
		return count(m.root)
	}
	var m pmap[number, int]
	for i := range number(50) {
		m = m.set(i, 0, 1)
	}
	before := nodes(m)
	for i := number(50); i < 5000; i++ {
		m = m.set(i, 0, 2)
	}
	for i := number(50); i < 5000; i++ {
		m = m.del(i, 3)
	}
	if after := nodes(m); after != before || m.n != 50 {
		t.Fatalf("%d nodes and %d keys, want %d and 50", after, m.n, before)
	}
}
