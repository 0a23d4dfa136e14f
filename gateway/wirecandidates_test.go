package gateway

import (
	"strings"
	"testing"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// A column of another length, or a number that leads nowhere, is an error that says
// which, and nothing worse.
func TestCandidatesThatDoNotFit(t *testing.T) {
	good := func() *cellv1.Proposal {
		return proposalTo(&schedule.Proposal{
			Hosts: 2, Passed: 2, Bounds: []schedule.Bounds{{Min: 0, Max: 1}},
			Candidates: []schedule.Candidate{
				{Host: schedule.ID{1}, ServiceHost: "a", NodeName: "a", Raw: []float64{1}, Multipliers: []float64{2}},
				{Host: schedule.ID{2}, ServiceHost: "b", NodeName: "b", Raw: []float64{0}, Multipliers: []float64{3}, Limits: &schedule.Limits{}},
			},
		})
	}
	if _, err := proposalFrom(good()); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*cellv1.Proposal){
		"bounds_flat":           func(p *cellv1.Proposal) { p.BoundsFlat = p.BoundsFlat[:1] },
		"multipliers_flat":      func(p *cellv1.Proposal) { p.MultipliersFlat = []float64{1} },
		"columns: host_uuids":   func(p *cellv1.Proposal) { p.Columns.HostUuids = p.Columns.HostUuids[:31] },
		"columns: service_host": func(p *cellv1.Proposal) { p.Columns.ServiceHosts = nil },
		"columns: nodenames":    func(p *cellv1.Proposal) { p.Columns.Nodenames = p.Columns.Nodenames[:1] },
		"columns: zone has":     func(p *cellv1.Proposal) { p.Columns.Zone = nil },
		"columns: zone[1]":      func(p *cellv1.Proposal) { p.Columns.Zone[1] = 9 },
		"columns: zone[0]":      func(p *cellv1.Proposal) { p.Columns.Zone[0] = -1 },
		"columns: raw":          func(p *cellv1.Proposal) { p.Columns.Raw = append(p.Columns.Raw, 1) },
		"columns: weights":      func(p *cellv1.Proposal) { p.Columns.Weights = nil },
		"columns: ties":         func(p *cellv1.Proposal) { p.Columns.Ties = nil },
		"columns: multipliers":  func(p *cellv1.Proposal) { p.Columns.Multipliers = nil },
		"columns: limits":       func(p *cellv1.Proposal) { p.Columns.Limits = nil },
		"columns: limited[0]":   func(p *cellv1.Proposal) { p.Columns.Limited[0] = 2 },
		"columns: own[1]":       func(p *cellv1.Proposal) { p.Columns.Own[1] = 0 },
		"columns: own[0]":       func(p *cellv1.Proposal) { p.Columns.Own[0] = 7 },
	} {
		p := good()
		spoil(p)
		if _, err := proposalFrom(p); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s…", err, want)
		}
	}
}
