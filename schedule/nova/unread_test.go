package nova

import (
	"slices"
	"testing"

	"cellgate/schedule"
)

func TestUnread(t *testing.T) {
	r := &schedule.Request{Nova: &schedule.NovaRequest{
		Flavor: schedule.Flavor{ExtraSpecs: []schedule.Pair{
			{Key: "aggregate_instance_extra_specs:tier"}, {Key: "capabilities:cpu_info:arch"}, {Key: "free_ram_mb"}, {Key: "ssd"},
		}},
		Hints: []schedule.Hint{{Name: "query"}, {Name: "same_host"}},
	}}
	tier, ssd := `s.flavor.extra_specs["aggregate_instance_extra_specs:tier"]`, `s.flavor.extra_specs["ssd"]`
	arch, ram := `s.flavor.extra_specs["capabilities:cpu_info:arch"]`, `s.flavor.extra_specs["free_ram_mb"]`
	query, same := `s.scheduler_hints["query"]`, `s.scheduler_hints["same_host"]`
	for _, c := range []struct{ filters, want []string }{
		{nil, []string{tier, ssd, query, same}},
		{[]string{}, []string{tier, arch, ram, ssd, query, same}},
		{[]string{schedule.AggregateExtraSpecsFilter, schedule.JSONFilter}, []string{arch, same}},
		{[]string{schedule.CapabilitiesFilter, schedule.SameHostFilter}, []string{tier, ssd, query}},
	} {
		if got := Unread(r, &schedule.Rules{Filters: c.filters}, "s"); !slices.Equal(got, c.want) {
			t.Errorf("filters %v: unread %v, want %v", c.filters, got, c.want)
		}
	}
}
