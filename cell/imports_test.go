package cell

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/cell/reconcile"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const bootImport = "bbbbbbbb-0000-4000-8000-00000000000f"

// importedState is host n as read from Nova's tables, with a VCPU for each instance.
func importedState(n int, version uint64, consumers ...int) *cellv1.ImportedHost {
	s := plainState(n, 8)
	s.BootId, s.Version, s.AgentVersion = bootImport, version, 0
	for _, c := range consumers {
		s.Instances = append(s.Instances, instanceOn(n, c))
	}
	return &cellv1.ImportedHost{State: s}
}

func (r *testCell) importHosts(hosts ...*cellv1.ImportedHost) []*cellv1.ImportOutcome {
	r.t.Helper()
	out, err := r.cells.ImportHosts(context.Background(), &cellv1.ImportHostsRequest{Hosts: hosts})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.GetOutcomes()
}

// imported imports a host and checks the outcome.
func (r *testCell) imported(in *cellv1.ImportedHost, want *cellv1.ImportOutcome) {
	r.t.Helper()
	if got := r.importHosts(in)[0]; !proto.Equal(got, want) {
		r.t.Errorf("the outcome is %v, want %v", got, want)
	}
}

func TestAnImportFillsTheShard(t *testing.T) {
	r := start(t, newStore(t))
	r.imported(importedState(1, 1, 1, 2), &cellv1.ImportOutcome{Adopted: 2})
	r.imported(importedState(1, 2, 1, 2), &cellv1.ImportOutcome{Unchanged: true})
	r.must(newClaim("a", 3, 1, 1))
	r.imported(importedState(1, 3, 1, 3), &cellv1.ImportOutcome{Unchanged: true, Confirmed: 1, Released: 1})
	r.imported(importedState(2, 1, 1), &cellv1.ImportOutcome{ClaimedElsewhere: 1})
	small := importedState(3, 1, 4, 5)
	small.State.Providers[0].Inventories[0].Total = 1
	r.imported(small, &cellv1.ImportOutcome{Adopted: 2, Overcommitted: 1})
	claims, err := r.cells.ListClaims(context.Background(), &cellv1.ListClaimsRequest{HostUuid: hostUUID(1)})
	if err != nil || len(claims.GetClaims()) != 2 {
		t.Errorf("host 1 has %v, %v", claims, err)
	}
}

// On a host that an agent registered, an import's aggregates and ratios take precedence, in NATIVE
// too. Differences from the agent's values are a finding. If Nova does not have the host any more,
// the agent's values count again.
func TestImportHosts_AgentsHost_FollowsNovaAggregatesAndRatios(t *testing.T) {
	r := start(t, newStore(t))
	rack := func(zone string) []*agentv1.Aggregate {
		return []*agentv1.Aggregate{{Uuid: "e0000000-0000-4000-8000-000000000001", Name: "rack1", Metadata: map[string]string{"availability_zone": zone}}}
	}
	agents := plainState(1, 8)
	agents.Aggregates = rack("z2")
	r.register(agents)
	has := func(zone string, ratio float64, finding string) {
		t.Helper()
		h := r.cell.rows.Host(hostUUID(1)).Host
		got := ""
		if len(h.Aggregates) > 0 {
			got = h.Aggregates[0].Metadata["availability_zone"]
		}
		if i := h.Providers[0].Inventories[0]; got != zone || i.AllocationRatio != ratio || len(h.Aggregates) > 1 {
			t.Errorf("the host is in %v, with ratio %v, want zone %q and %v", h.Aggregates, i.AllocationRatio, zone, ratio)
		}
		text := ""
		for _, f := range reconcile.CompareHost(r.cell.rows.ViewOfHost(hostUUID(1), nil), nil) {
			if f.GetKind() == cellgatev1.Finding_NOVA_DIFFERS {
				text = f.GetDetail()
			}
		}
		if finding == "" && text != "" || !strings.Contains(text, finding) {
			t.Errorf("the finding is %q, want %q", text, finding)
		}
	}
	own := agents.Providers[0].Inventories[0].AllocationRatio
	has("z2", own, "")
	version := uint64(0)
	says := func(in []*agentv1.Aggregate, ratio float64) {
		t.Helper()
		version++
		s := importedState(1, version)
		s.State.Aggregates = in
		if inv := s.State.Providers[0].Inventories[0]; ratio > 0 {
			inv.AllocationRatio = ratio
		} else {
			s.State.Providers[0].Inventories = nil
		}
		out, err := r.cells.ImportHosts(t.Context(), &cellv1.ImportHostsRequest{Hosts: []*cellv1.ImportedHost{s}})
		if err != nil || !out.GetOutcomes()[0].GetOwnedByAgent() {
			t.Fatalf("%v, %v", out, err)
		}
	}
	says(rack("z1"), own)
	has("z1", own, "Nova has aggregate rack1 (e0000000-0000-4000-8000-000000000001) with [availability_zone=z1], the agent's file with [availability_zone=z2]")
	says(rack("z3"), own+1)
	has("z3", own+1, "Nova's allocation ratio of VCPU is ")
	says(nil, own)
	has("", own, "Nova took the host out of aggregate rack1")
	says(nil, 0)
	has("z2", own, "")
}

func TestAHostThatIsNotTakenFailsAlone(t *testing.T) {
	r := start(t, newStore(t))
	versioned, elsewhere, twice := importedState(1, 1), importedState(2, 1), importedState(3, 1, 1, 1)
	versioned.State.AgentVersion, elsewhere.State.Cell = 1, "another"
	out := r.importHosts(versioned, elsewhere, twice, importedState(4, 1, 1))
	for n, o := range out[:3] {
		if o.GetFailure().GetReason() != string(fault.InvalidRequest) && n != 1 || o.GetFailure() == nil {
			t.Errorf("host %d: %v", n+1, o)
		}
	}
	if out[3].GetFailure() != nil || out[3].GetAdopted() != 1 {
		t.Errorf("the good one: %v", out[3])
	}
}

func TestAnAgentSpeaksForItsHost(t *testing.T) {
	r := start(t, newStore(t))
	r.imported(importedState(1, 1, 1), &cellv1.ImportOutcome{Adopted: 1})
	zero := plainState(1, 8)
	zero.AgentVersion = 0
	if m := r.agent().report(zero).GetRefused(); m.GetReason() != string(fault.InvalidRequest) {
		t.Errorf("an agent of version 0: %v", m)
	}
	s := plainState(1, 16)
	s.Instances = []*agentv1.Instance{instanceOn(1, 1)}
	r.register(s)
	r.imported(importedState(1, 2, 1, 2), &cellv1.ImportOutcome{OwnedByAgent: true})
	if row := r.cell.rows.Host(hostUUID(1)); row.Host.Imported {
		t.Errorf("the host is %+v", row.Host)
	}
}

// A host that was imported once is down until its agent reports, if no gateway imports it again.
func TestAnImportedHostIsDownUntilItsAgentSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		r.imported(importedState(1, 1), &cellv1.ImportOutcome{})
		time.Sleep(2 * r.cell.live.Interval())
		if p := r.propose(query(1)); p.GetPassed() != 0 || p.GetHosts() != 1 {
			t.Errorf("proposed %v", p)
		}
		if s := r.totals(); s.GetHosts() != 1 || s.GetHostsUp() != 0 || s.GetHostsImported() != 1 {
			t.Errorf("the totals are %v", s)
		}
		r.counts(1, "cellgate_cell_hosts_imported", "cell1", "r1")
		r.register(plainState(1, 8))
		if p := r.propose(query(1)); p.GetPassed() != 1 {
			t.Errorf("proposed %v", p)
		}
		if s := r.totals(); s.GetHosts() != 1 || s.GetHostsUp() != 1 || s.GetHostsImported() != 0 || s.GetGate() != nil {
			t.Errorf("the totals are %v", s)
		}
		r.reportLegacy(legacyOf("g1", 60, 1))
		if g := r.totals().GetGate(); g.GetState() != legacyState || g.GetEpoch() != 1 {
			t.Errorf("the gate in the totals is %v", g)
		}
	})
}

func (r *testCell) totals() *cellgatev1.Cell {
	r.t.Helper()
	s, err := r.cells.GetSummary(context.Background(), &cellv1.GetSummaryRequest{})
	if err != nil {
		r.t.Fatal(err)
	}
	return s.GetTotals()
}
