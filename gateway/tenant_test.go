package gateway

import (
	"context"
	"strings"
	"testing"

	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	"cellgate/schedule"
)

// named is a host in an aggregate for a project.
func named(n, size int, project string) schedule.Host {
	h := testHost(n, size)
	h.Aggregates = []schedule.Aggregate{{UUID: testUUID(0xd, n), Metadata: map[string]string{"filter_tenant_id": project}}}
	return h
}

// limitTenants turns limit_tenants_to_placement_aggregate on.
func limitTenants(cfg *Config) { cfg.Options = &rules.Options{HostSubsetSize: 1, LimitTenants: true} }

// A project with an aggregate, in whichever cell, is placed only there. A project without one is placed
// anywhere, unless it must have one.
func TestProjectsStayInTheirAggregates(t *testing.T) {
	cells := func() []*testCell {
		return []*testCell{newCell(1, testHost(1, 4)), newCell(2, named(2, 1, "p1"), testHost(3, 2))}
	}
	selected := func(w *world, project string) string {
		r := ask(1, 1)
		r.GetRequestSpec().ProjectId, r.DryRun = project, true
		return w.choose(r).GetDestinations()[0].GetSelected().GetServiceHost()
	}
	w := start(t, cells(), limitTenants)
	if h := selected(w, "p1"); h != "host002" {
		t.Errorf("p1 is on %s, its aggregate has host002", h)
	}
	if h := selected(w, "p2"); h != "host001" {
		t.Errorf("p2, without an aggregate, is on %s, host001 has most room", h)
	}
	if h := selected(start(t, cells(), nil), "p1"); h != "host001" {
		t.Errorf("without the option p1 is on %s", h)
	}

	w = start(t, cells(), func(cfg *Config) { limitTenants(cfg); cfg.Options.TenantsRequireAggregate = true })
	if h := selected(w, "p1"); h != "host002" {
		t.Errorf("p1 is on %s", h)
	}
	r := ask(1, 1)
	r.GetRequestSpec().ProjectId = "p2"
	if e := w.refused(r, fault.NoValidHost); !strings.Contains(e.Message, "No hosts available for tenant p2") {
		t.Errorf("%v", e)
	}
}

// If a project's aggregate is full, the project is not placed outside, and the error says why.
func TestAFullAggregateOfAProject(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 4), named(2, 1, "p1"))}, limitTenants)
	r := ask(9, 1) // 2 VCPU each, on 16
	r.GetRequestSpec().ProjectId = "p1"
	r.GetRequestSpec().GetFlavor().Vcpus = 17
	if e := w.refused(r, fault.NoValidHost); !strings.Contains(e.Message, "outside of the aggregates that are asked for (tenant)") {
		t.Errorf("%v", e)
	}
}

// A cell that never answered might have the aggregate. Until it answers, only projects with an
// aggregate elsewhere are placed.
func TestAnUnknownCellMayHaveTheAggregate(t *testing.T) {
	silent := newCell(2, testHost(3, 2))
	silent.hook(func(_ context.Context, method string, _ any) error {
		if method == "GetSummary" {
			return fault.New(fault.CellUnavailable, "not yet")
		}
		return nil
	}, nil)
	w := start(t, []*testCell{newCell(1, testHost(1, 4), named(2, 1, "p1")), silent}, limitTenants)
	r := ask(1, 1)
	r.GetRequestSpec().ProjectId = "p2"
	if e := w.refused(r, fault.CellUnavailable); e.Metadata["cells"] != "cell2" || !strings.Contains(e.Message, "tenant p2") {
		t.Errorf("%v, %v", e, e.Metadata)
	}
	r.GetRequestSpec().ProjectId = "p1"
	if h := w.choose(r).GetDestinations()[0].GetSelected().GetServiceHost(); h != "host002" {
		t.Errorf("p1 is on %s", h)
	}
}
