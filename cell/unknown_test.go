package cell

import (
	"strings"
	"testing"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// unknownState is of an agent that does not know its instances.
func unknownState(n int, vcpus int32) *agentv1.FullState {
	s := plainState(n, vcpus)
	s.InstancesUnknown = true
	return s
}

func (r *testCell) usedVCPUs(n int, want int64) {
	r.t.Helper()
	if got := r.cell.rows.Host(hostUUID(n)).Usage.Of(hostUUID(n), "VCPU"); got != want {
		r.t.Errorf("host %d uses %d VCPU, want %d", n, got, want)
	}
}

// Imported claims stay until the importer, or later the agent, knows better.
func TestAnAgentThatDoesNotKnowItsInstancesKeepsClaims(t *testing.T) {
	r := start(t, newStore(t))
	r.imported(importedState(1, 1, 1, 2), &cellv1.ImportOutcome{Adopted: 2})
	a := r.agent()
	if m := a.report(unknownState(1, 16)); m.GetAccepted() == nil {
		t.Fatalf("the state was not accepted: %v", m)
	}
	r.usedVCPUs(1, 2)
	r.imported(importedState(1, 2, 2, 3), &cellv1.ImportOutcome{OwnedByAgent: true, InstancesTaken: true, Adopted: 1, Released: 1})
	r.usedVCPUs(1, 2)
	if row := r.cell.rows.Host(hostUUID(1)); row.Host.Imported {
		t.Errorf("the host is %+v", row.Host)
	}
	known := plainState(1, 16)
	known.Version = 2
	known.Instances = []*agentv1.Instance{instanceOn(1, 3)}
	if m := a.report(known); m.GetAccepted() == nil {
		t.Fatalf("the state was not accepted: %v", m)
	}
	r.usedVCPUs(1, 1)
	r.imported(importedState(1, 3, 2, 3), &cellv1.ImportOutcome{OwnedByAgent: true})
}

func TestUnknownInstancesAreNotListed(t *testing.T) {
	r := start(t, newStore(t))
	s := unknownState(1, 16)
	s.Instances = []*agentv1.Instance{instanceOn(1, 1)}
	m := r.agent().report(s).GetRefused()
	if len(m.GetProblems()) != 1 || !strings.HasPrefix(m.GetProblems()[0], "instances:") {
		t.Errorf("refused %v", m)
	}
}
