package placement_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"cellgate/gateway/placement"
	"cellgate/internal/testlong"
)

// TestWrite_RandomConsumersOfTwoCells_AsInOneStore writes allocations of providers in two cells. It compares with the
// memory backend which writes are refused, why, and what is left. It compares generations by their effect: after a
// write that the second cell refuses, a consumer's generation may be higher.
func TestWrite_RandomConsumersOfTwoCells_AsInOneStore(t *testing.T) {
	seeds := uint64(1)
	if testlong.On() {
		seeds = 4
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 29))
		over, one := overCells(t)(), placement.NewMemory()
		var providers, consumers []string
		for n := range 4 {
			id := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n)
			inventory := map[string]placement.Inventory{"VCPU": {Total: 10, MinUnit: 1, MaxUnit: 10, StepSize: 1, AllocationRatio: 1}}
			made := placement.ProviderWrite{UUID: id, Create: true, Name: new(id), Inventories: &inventory}
			for backend, cell := range map[placement.Backend]string{over: []string{"one", "two"}[n%2], one: ""} {
				made.Cell = cell
				if err := backend.Write(t.Context(), placement.Write{Providers: []placement.ProviderWrite{made}}); err != nil {
					t.Fatal(err)
				}
			}
			providers, consumers = append(providers, id), append(consumers, fmt.Sprintf("bbbbbbbb-0000-4000-8000-%012d", n))
		}
		counts := map[string]int{}
		for step := range 300 {
			draw := drawWrite(rng, providers, consumers)
			got, want := reasonOf(t, over.Write(t.Context(), draw(t, over, consumers))), reasonOf(t, one.Write(t.Context(), draw(t, one, consumers)))
			counts[want]++
			if got != want {
				t.Fatalf("seed %d, step %d: %s, want %s: %+v", seed, step, got, want, draw(t, one, consumers))
			}
			if a, b := heldBy(t, over, consumers), heldBy(t, one, consumers); !reflect.DeepEqual(a, b) {
				t.Fatalf("seed %d, step %d: consumers hold %v, want %v", seed, step, a, b)
			}
			if a, b := usedOf(t, over), usedOf(t, one); a != b {
				t.Fatalf("seed %d, step %d: in use is %s, want %s", seed, step, a, b)
			}
		}
		if len(counts) < 4 || counts["written"] < 50 {
			t.Errorf("seed %d: too few kinds of writes: %v", seed, counts)
		}
	}
}

// drawWrite draws a write of one or two consumers; the generations are those that the backend has then, or others.
func drawWrite(rng *rand.Rand, providers, consumers []string) func(*testing.T, placement.Backend, []string) placement.Write {
	var list []placement.ConsumerWrite
	var stale []bool
	for _, n := range rng.Perm(len(consumers))[:1+rng.IntN(2)] {
		w := placement.ConsumerWrite{UUID: consumers[n], ProjectID: "p", UserID: "u", Allocations: placement.Allocations{}}
		for _, p := range rng.Perm(len(providers))[:rng.IntN(4)] {
			w.Allocations[providers[p]] = map[string]int64{"VCPU": 1 + rng.Int64N(5)}
		}
		if rng.IntN(6) == 0 {
			w.Allocations, w.MustExist, w.AnyGeneration = nil, true, true
		}
		list, stale = append(list, w), append(stale, rng.IntN(6) == 0)
	}
	return func(t *testing.T, b placement.Backend, consumers []string) placement.Write {
		t.Helper()
		has := map[string]int64{}
		for _, c := range consumersOf(t, b, consumers) {
			has[c.UUID] = c.Generation
		}
		w := placement.Write{Consumers: slices.Clone(list)}
		for i := range w.Consumers {
			c := &w.Consumers[i]
			if g, ok := has[c.UUID]; ok && !c.AnyGeneration {
				c.Generation = new(g)
			}
			if stale[i] && !c.AnyGeneration {
				c.Generation = new(int64(1000))
			}
		}
		return w
	}
}

func consumersOf(t *testing.T, b placement.Backend, consumers []string) []*placement.Consumer {
	t.Helper()
	list, err := b.Consumers(t.Context(), placement.ConsumerQuery{UUIDs: consumers})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func heldBy(t *testing.T, b placement.Backend, consumers []string) map[string]placement.Allocations {
	t.Helper()
	out := map[string]placement.Allocations{}
	for _, c := range consumersOf(t, b, consumers) {
		out[c.UUID] = c.Allocations
	}
	return out
}

func usedOf(t *testing.T, b placement.Backend) (text string) {
	t.Helper()
	list, err := b.Providers(t.Context(), placement.ProviderQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		text += fmt.Sprintf("%s %d, ", p.UUID, p.Used["VCPU"])
	}
	return text
}

func reasonOf(t *testing.T, err error) string {
	t.Helper()
	var r *placement.Refusal
	if err != nil && !errors.As(err, &r) {
		t.Fatal(err)
	}
	if r == nil {
		return "written"
	}
	return string(r.Reason)
}
