package gateway

import (
	"slices"
	"strings"
	"testing"

	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// factual is a test host that reports its architecture and its rack.
func factual(n, size int, arch, rack string) schedule.Host {
	h := testHost(n, size)
	h.Facts = schedule.ParseFacts(schedule.FactTexts{
		HypervisorType: "QEMU", CPUInfo: `{"arch": "` + arch + `"}`,
		SupportedInstances: `[["` + arch + `", "kvm", "hvm"]]`, Stats: `{"rack": "` + rack + `"}`,
	})
	return h
}

// The fields that Nova's filters read decide through the whole path. Without them the larger host of
// the other cell would be chosen.
func TestNovaFiltersDecide(t *testing.T) {
	fast := factual(1, 1, "aarch64", "r1")
	fast.Aggregates = []schedule.Aggregate{{UUID: testUUID(0xd, 1), Metadata: map[string]string{"ssd": "true"}}}
	w := start(t, []*testCell{newCell(1, fast), newCell(2, factual(2, 4, "x86_64", "r2"))}, func(c *Config) {
		c.Filters = append(schedule.DefaultFilters(), schedule.AggregateExtraSpecsFilter)
	})
	extra := func(k, v string) func(*cellgatev1.RequestSpec) {
		return func(s *cellgatev1.RequestSpec) { s.Flavor.ExtraSpecs = map[string]string{k: v} }
	}
	for name, change := range map[string]func(*cellgatev1.RequestSpec){
		"cpu_info": extra("capabilities:cpu_info:arch", "aarch64"),
		"stats":    extra("capabilities:rack", "<or> r1 <or> r3"),
		"metadata": extra("aggregate_instance_extra_specs:ssd", "true"),
		"image": func(s *cellgatev1.RequestSpec) {
			s.Image = &cellgatev1.Image{Properties: map[string]string{"hw_architecture": "aarch64"}}
		},
	} {
		req := ask(1, 1)
		req.DryRun = true
		if got := w.choose(req).GetDestinations()[0].GetSelected().GetServiceHost(); got != "host002" {
			t.Fatalf("without it %s is chosen", got)
		}
		change(req.GetRequestSpec())
		resp := w.choose(req)
		if got := resp.GetDestinations()[0].GetSelected().GetServiceHost(); got != "host001" {
			t.Errorf("%s: %s is chosen", name, got)
		}
	}
}

// A hint that no enabled filter reads changes nothing, as in Nova, and is reported.
func TestUnreadHintsAreIgnoredAloud(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
	req := ask(1, 1)
	req.GetRequestSpec().SchedulerHints = map[string]*cellgatev1.StringList{"query": {Values: []string{`["=", 1, 2]`}}}
	if got := w.choose(req).GetIgnoredFields(); !slices.Contains(got, `request_spec.scheduler_hints["query"]`) {
		t.Errorf("ignored fields %q", got)
	}
}

// Multipliers of aggregates decide over cells: weights are comparable only after every cell's hosts are
// weighed with their own multipliers.
func TestMultipliersOfAggregatesOverCells(t *testing.T) {
	small, large := testHost(1, 1), testHost(2, 4)
	large.Aggregates = []schedule.Aggregate{{UUID: testUUID(0xd, 1), Metadata: map[string]string{
		"ram_weight_multiplier": "-5", "cpu_weight_multiplier": "-5", "disk_weight_multiplier": "-5",
	}}}
	w := start(t, []*testCell{newCell(1, small), newCell(2, large)}, nil)
	resp := w.choose(ask(1, 1))
	if got := resp.GetDestinations()[0].GetSelected().GetServiceHost(); got != "host001" || !resp.GetExact() {
		t.Errorf("%s is chosen, exact %v", got, resp.GetExact())
	}
}

// With strict_nova a request fails where Nova's does; without, the host is left
// out.
func TestStrictNova(t *testing.T) {
	for _, strict := range []bool{false, true} {
		w := start(t, []*testCell{newCell(1, factual(1, 1, "x86_64", "r1"), factual(2, 1, "x86_64", "7"))}, func(c *Config) {
			c.Options = &rules.Options{Strict: strict}
		})
		req := ask(1, 1)
		req.GetRequestSpec().Flavor.ExtraSpecs = map[string]string{"capabilities:rack": ">= 5"}
		if !strict {
			if got := w.choose(req).GetDestinations()[0].GetSelected().GetServiceHost(); got != "host002" {
				t.Errorf("%s is chosen", got)
			}
			continue
		}
		if err := w.refused(req, fault.InvalidRequest); !strings.Contains(err.Message, "ComputeCapabilitiesFilter raises ValueError") {
			t.Errorf("refused with %q", err.Message)
		}
	}
}
