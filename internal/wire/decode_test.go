package wire

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"cellgate/internal/fault"
	"cellgate/internal/limits"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

const hostA = "aaaaaaaa-0000-4000-8000-000000000001"

func pathsOf(t *testing.T, err error) []string {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.InvalidRequest {
		t.Fatalf("got %v", err)
	}
	var paths []string
	for _, field := range f.Fields {
		paths = append(paths, field.Path)
	}
	slices.Sort(paths)
	return paths
}

func TestFields_BadQuery_NamesEveryBadField(t *testing.T) {
	var r Fields
	p := &cellv1.Placement{
		Resources:       []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}, {ResourceClass: "VCPU", Amount: -1}, {Amount: 1}},
		Group:           &cellv1.Group{Uuid: "x", Policy: "sometimes", Members: []string{hostA, "y"}},
		Rules:           &cellv1.Rules{Weighers: []*cellv1.Weigher{{Name: "RAMWeigher", Multiplier: math.NaN()}}},
		IgnoreHostUuids: []string{hostA, "w"},
	}
	r.Query(&cellv1.Query{
		Known:               &cellv1.GlobalStats{Bounds: []float64{1, 2, 3}},
		TentativePlacements: []*cellv1.TentativePlacement{{HostUuid: hostA, InstanceUuid: "z"}},
	}, r.Request(p), r.Rules(p.GetRules()))
	want := []string{
		"known.bounds", "limit", "placement.group.members[1]", "placement.group.policy", "placement.group.uuid",
		"placement.ignore_host_uuids[1]", "placement.resources[1].amount", "placement.resources[1].resource_class",
		"placement.resources[2].resource_class", "placement.rules.weighers[0].multiplier", "tentative_placements[0].instance_uuid",
	}
	if got := pathsOf(t, r.Err()); !slices.Equal(got, want) {
		t.Errorf("named %v\nwant  %v", got, want)
	}
	var nan Fields
	nan.Query(&cellv1.Query{Limit: 1, Known: &cellv1.GlobalStats{Bounds: []float64{1, math.NaN()}}}, nil, nil)
	if got := pathsOf(t, nan.Err()); !slices.Equal(got, []string{"known.bounds"}) {
		t.Errorf("named %v", got)
	}
}

// A multiplier that would make weights infinite is refused.
func TestFields_OptionsOutOfRange_NamesEach(t *testing.T) {
	var r Fields
	r.options(&cellv1.Options{
		HostSubsetSize: limits.Subset + 1, MetricsWeightOfUnavailable: math.NaN(),
		ImagePropsWeightSetting: []*cellv1.Ratio{{Name: "os_distro", Ratio: math.Inf(1)}},
	})
	want := []string{"placement.rules.options.host_subset_size", "placement.rules.options.image_props_weight_setting[0].ratio", "placement.rules.options.metrics_weight_of_unavailable"}
	if got := pathsOf(t, r.Err()); !slices.Equal(got, want) {
		t.Errorf("named %v, want %v", got, want)
	}
}

func TestFields_HardwareOutOfRange_NamesTheField(t *testing.T) {
	for _, c := range []struct {
		nova *cellv1.NovaRequest
		path string
	}{
		{&cellv1.NovaRequest{Numa: &cellv1.GuestNuma{}}, "placement.nova.numa.cells"},
		{&cellv1.NovaRequest{Numa: &cellv1.GuestNuma{Cells: []*cellv1.GuestCell{{}, {Cpus: -1}}}}, "placement.nova.numa.cells[1]"},
		{&cellv1.NovaRequest{Numa: &cellv1.GuestNuma{Cells: []*cellv1.GuestCell{{PageSize: -4}}}}, "placement.nova.numa.cells[0]"},
		{&cellv1.NovaRequest{PciRequests: []*cellv1.PciRequest{{}}}, "placement.nova.pci_requests[0].count"},
	} {
		var r Fields
		r.nova(c.nova)
		if got := pathsOf(t, r.Err()); !slices.Equal(got, []string{c.path}) {
			t.Errorf("named %v, want %s", got, c.path)
		}
	}
}

func TestDecodeProposal_ColumnsThatDoNotFit_NamesTheColumn(t *testing.T) {
	good := func() *cellv1.Proposal {
		return EncodeProposal(&schedule.Proposal{
			Hosts: 2, Passed: 2, Bounds: []schedule.Bounds{{Min: 0, Max: 1}},
			Candidates: []schedule.Candidate{
				{Host: schedule.ID{1}, ServiceHost: "a", NodeName: "a", Raw: []float64{1}, Multipliers: []float64{2}},
				{Host: schedule.ID{2}, ServiceHost: "b", NodeName: "b", Raw: []float64{0}, Multipliers: []float64{3}, Limits: &schedule.Limits{}},
			},
			Forecast: &schedule.Forecast{
				Rest:  []schedule.Bounds{{Min: 0, Max: 1}},
				Steps: []schedule.Step{{At: 1, Passes: true, Raw: []float64{0}}, {At: 1}},
			},
		})
	}
	if _, err := DecodeProposal(good()); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*cellv1.Proposal){
		"bounds":                   func(p *cellv1.Proposal) { p.Bounds = p.Bounds[:1] },
		"multipliers":              func(p *cellv1.Proposal) { p.Multipliers = []float64{1} },
		"candidates: host_uuids":   func(p *cellv1.Proposal) { p.Candidates.HostUuids = p.Candidates.HostUuids[:31] },
		"candidates: service_host": func(p *cellv1.Proposal) { p.Candidates.ServiceHosts = nil },
		"candidates: nodenames":    func(p *cellv1.Proposal) { p.Candidates.Nodenames = p.Candidates.Nodenames[:1] },
		"candidates: zone has":     func(p *cellv1.Proposal) { p.Candidates.Zone = nil },
		"candidates: zone[1]":      func(p *cellv1.Proposal) { p.Candidates.Zone[1] = 9 },
		"candidates: zone[0]":      func(p *cellv1.Proposal) { p.Candidates.Zone[0] = -1 },
		"candidates: raw":          func(p *cellv1.Proposal) { p.Candidates.Raw = append(p.Candidates.Raw, 1) },
		"candidates: weights":      func(p *cellv1.Proposal) { p.Candidates.Weights = nil },
		"candidates: ties":         func(p *cellv1.Proposal) { p.Candidates.Ties = nil },
		"candidates: multipliers":  func(p *cellv1.Proposal) { p.Candidates.Multipliers = nil },
		"candidates: limits":       func(p *cellv1.Proposal) { p.Candidates.Limits = nil },
		"candidates: limited[0]":   func(p *cellv1.Proposal) { p.Candidates.Limited[0] = 2 },
		"candidates: own[1]":       func(p *cellv1.Proposal) { p.Candidates.Own[1] = 0 },
		"forecast: rest":           func(p *cellv1.Proposal) { p.Forecast.Rest = p.Forecast.Rest[:1] },
		"forecast: passes":         func(p *cellv1.Proposal) { p.Forecast.Passes = p.Forecast.Passes[:1] },
		"forecast: raw has 0":      func(p *cellv1.Proposal) { p.Forecast.Raw = nil },
		"forecast: raw has 1":      func(p *cellv1.Proposal) { p.Forecast.Raw = append(p.Forecast.Raw, 1) },
		"candidates: own[0]":       func(p *cellv1.Proposal) { p.Candidates.Own[0] = 7 },
	} {
		p := good()
		spoil(p)
		if _, err := DecodeProposal(p); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s…", err, want)
		}
	}
}
