package gateway

import (
	"slices"
	"strings"
	"testing"

	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	"cellgate/schedule"
)

func TestFiltersInForce_PlacementUnnamed_RunsAllTheSame(t *testing.T) {
	always := []string{
		"HostFilter", "ComputeFilter", "AvailabilityZoneFilter", "AggregateFilter", "TraitFilter", "ResourceFilter",
		"ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter",
	}
	first, last := always[:6], always[6:]
	for name, c := range map[string]struct{ configured, want []string }{
		"none":          {want: schedule.DefaultFilters()},
		"Nova's only":   {configured: []string{"JsonFilter"}, want: slices.Concat(first, []string{"JsonFilter"}, last)},
		"order is kept": {configured: []string{"ResourceFilter", "ServerGroupAffinityFilter", "ComputeFilter"}, want: []string{"HostFilter", "AvailabilityZoneFilter", "AggregateFilter", "TraitFilter", "ResourceFilter", "ServerGroupAffinityFilter", "ComputeFilter", "ServerGroupAntiAffinityFilter"}},
		"all named":     {configured: always, want: always},
	} {
		if got := rules.FiltersInForce(c.configured); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Without ResourceFilter a full host would pass, and every claim on it would be refused until the request's deadline.
func TestSelectDestinations_FiltersWithoutPlacement_FullHostIsNoValidHost(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, func(c *Config) { c.Filters = []string{schedule.CapabilitiesFilter} })
	for n := 1; ; n++ {
		resp, err := w.scheduler.SelectDestinations(t.Context(), ask(n, 1))
		if err == nil && n < 100 {
			continue
		}
		e := mustFail(t, resp, err, fault.NoValidHost)
		if n == 1 || !strings.Contains(e.Message, "1 has too little VCPU") {
			t.Errorf("request %d: %v, want what a full host lacks once the host is full", n, e)
		}
		return
	}
}
