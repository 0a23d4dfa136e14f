package selection

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/wire"
	"cellgate/schedule"
)

// What is written at once is what json writes of the same allocation.
func TestAllocationTextIsJSON(t *testing.T) {
	var once, other int
	rapid.Check(t, func(t *rapid.T) {
		provider := func(name string) schedule.ID {
			return schedule.ID{15: rapid.SampledFrom([]byte{1, 1, 1, 1, 2}).Draw(t, name)}
		}
		of := &schedule.Allocation{}
		for range rapid.IntRange(0, 4).Draw(t, "amounts") {
			class := rapid.SampledFrom([]string{"VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_1", "A", "a", "\"", "<", ""}).Draw(t, "class")
			of.Amounts = append(of.Amounts, schedule.ProviderAmount{Provider: provider("of"), Class: class, N: rapid.Int64().Draw(t, "n")})
		}
		for range rapid.SampledFrom([]int{1, 1, 1, 0, 2}).Draw(t, "mappings") {
			m := schedule.Mapping{Suffix: rapid.SampledFrom([]string{"", "", "", "_1"}).Draw(t, "suffix")}
			for range rapid.SampledFrom([]int{1, 1, 1, 0, 2}).Draw(t, "providers") {
				m.Providers = append(m.Providers, provider("mapped"))
			}
			of.Mappings = append(of.Mappings, m)
		}
		text := ofOneProvider(of)
		if text == "" {
			other++
			return
		}
		once++
		type resources struct {
			Resources map[string]int64 `json:"resources"`
		}
		type form struct {
			Allocations map[string]resources `json:"allocations"`
			Mappings    map[string][]string  `json:"mappings"`
		}
		want := form{Allocations: map[string]resources{}, Mappings: map[string][]string{"": wire.IDTexts(of.Mappings[0].Providers)}}
		for _, a := range of.Amounts {
			id := a.Provider.String()
			if want.Allocations[id].Resources == nil {
				want.Allocations[id] = resources{Resources: map[string]int64{}}
			}
			want.Allocations[id].Resources[a.Class] = a.N
		}
		written, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if text != string(written) {
			t.Fatalf("wrote %s, json %s", text, written)
		}
		var got form
		if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s is read as %v (%v)", text, got, err)
		}
	})
	if once == 0 || other == 0 {
		t.Errorf("%d written at once, %d not", once, other)
	}
}
