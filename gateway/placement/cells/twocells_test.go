package cells

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"cellgate/gateway/placement"
)

// A consumer holds something of a storage in each of two cells. A write that one cell refuses leaves the other cell as
// it was, and no write repeats a generation of the consumer.
func TestWrite_ConsumerInTwoCells_IsDoneInBothOrNone(t *testing.T) {
	one, two := startCell(t, "one", 1), startCell(t, "two", 2)
	_, b, url := startGateway(t, "two", one, two)
	for at, id := range map[string]string{"/cells/one": compute, "": storage} {
		call(t, "POST", url+at+"/resource_providers", fmt.Sprintf(`{"name": %q, "uuid": %[1]q}`, id), 200)
		call(t, "PUT", url+"/resource_providers/"+id+"/inventories", `{"resource_provider_generation": 0, "inventories": {"DISK_GB": {"total": 50}}}`, 200)
	}
	held := func(inOne, inTwo, generation int64) {
		t.Helper()
		got, err := b.Consumers(t.Context(), placement.ConsumerQuery{UUIDs: []string{moving}})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		if c := got[0]; c.Allocations[compute]["DISK_GB"] != inOne || c.Allocations[storage]["DISK_GB"] != inTwo || generation > 0 && c.Generation != generation {
			t.Fatalf("%v of generation %d, want %d and %d of generation %d", c.Allocations, c.Generation, inOne, inTwo, generation)
		}
	}
	write := func(inOne, inTwo, want int) {
		t.Helper()
		generation := "null"
		if got, err := b.Consumers(t.Context(), placement.ConsumerQuery{UUIDs: []string{moving}}); err != nil {
			t.Fatal(err)
		} else if len(got) > 0 {
			generation = fmt.Sprint(got[0].Generation)
		}
		allocations := map[string]any{}
		for id, n := range map[string]int{compute: inOne, storage: inTwo} {
			if n > 0 {
				allocations[id] = map[string]any{"resources": map[string]int{"DISK_GB": n}}
			}
		}
		text, err := json.Marshal(allocations)
		if err != nil {
			t.Fatal(err)
		}
		call(t, "PUT", url+"/allocations/"+moving, fmt.Sprintf(`{"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": %s, "allocations": %s}`, generation, text), want)
	}
	write(1, 0, 204)
	write(1, 1, 204)
	held(1, 1, 2)
	write(0, 1, 204)
	held(0, 1, 3)
	write(1, 1, 204)
	held(1, 1, 4)
	// A cell in which the consumer only gives back is written last: here not at all.
	write(0, 51, 409)
	held(1, 1, 4)
	write(51, 0, 409)
	held(1, 1, 4)
	for range 8 { // the cell that refuses is sometimes written first
		write(2, 51, 409)
		held(1, 1, 0)
	}
}

// A trait that one cell uses stays in all cells.
func TestDeleteName_ACellRefuses_AllKeepIt(t *testing.T) {
	one, two := startCell(t, "one", 1), startCell(t, "two", 2)
	_, b, url := startGateway(t, "two", one, two)
	call(t, "POST", url+"/resource_providers", fmt.Sprintf(`{"name": "storage", "uuid": %q}`, storage), 200)
	call(t, "PUT", url+"/traits/CUSTOM_FAST", "", 201)
	call(t, "PUT", url+"/resource_providers/"+storage+"/traits", `{"resource_provider_generation": 0, "traits": ["CUSTOM_FAST"]}`, 200)
	if err := b.DeleteName(t.Context(), placement.TraitName, "CUSTOM_FAST"); err == nil {
		t.Error("a trait in use is deleted")
	}
	for _, c := range []*realCell{one, two} {
		if !slices.Contains(namesOf(t, c), "CUSTOM_FAST") {
			t.Errorf("cell %s lost the trait", c.name)
		}
	}
}
