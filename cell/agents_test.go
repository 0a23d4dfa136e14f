package cell

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/wire/wiretest"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

func TestARegisteredHostIsProposed(t *testing.T) {
	r := start(t, newStore(t))
	if p := r.propose(query(1)); p.GetHosts() != 0 || p.GetPassed() != 0 {
		t.Fatalf("an empty cell proposed %v", p)
	}
	a := r.agent()
	m := a.report(plainState(1, 8)).GetAccepted()
	if m.GetBootId() != bootA || m.GetVersion() != 1 || m.GetHeartbeatEvery().AsDuration() != 10*time.Second {
		t.Errorf("accepted with %v", m)
	}
	p := r.propose(query(8))
	if p.GetHosts() != 1 || p.GetPassed() != 1 || wiretest.Hosts(p)[0] != hostUUID(1) {
		t.Fatalf("proposed %v", p)
	}
	if p := r.propose(query(9)); p.GetPassed() != 0 || p.GetRejects()[0].GetDetail() != "VCPU" {
		t.Errorf("more than it has: %v", p)
	}

	// A new state of the host replaces it; the stream goes on.
	bigger := plainState(1, 16)
	bigger.Version = 2
	if m := a.report(bigger); m.GetAccepted().GetVersion() != 2 {
		t.Fatalf("the new state: %v", m)
	}
	if p := r.propose(query(9)); p.GetPassed() != 1 {
		t.Errorf("after the new state: %v", p)
	}
}

func TestAnUnchangedStateIsNotWrittenAgain(t *testing.T) {
	store := newStore(t)
	r := start(t, store)
	a := r.register(plainState(1, 8))
	store.hook(func(ops []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
		t.Errorf("%d operations were written", len(ops))
		return commit()
	})
	if m := a.report(plainState(1, 8)); m.GetAccepted() == nil {
		t.Errorf("the same state again: %v", m)
	}
	if b := r.agent(); b.report(plainState(1, 8)).GetAccepted() == nil {
		t.Error("the same state on another stream was not accepted")
	}
}

func TestASilentHostIsDownAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		loud, silent := r.register(plainState(1, 8)), r.register(plainState(2, 8))
		passed := func() []string {
			synctest.Wait()
			out := slices.Clone(r.propose(query(1)).GetCandidates().GetServiceHosts())
			slices.Sort(out)
			return out
		}
		for range 5 {
			time.Sleep(10 * time.Second)
			loud.heartbeat()
		}
		if got := passed(); len(got) != 2 {
			t.Errorf("within the time %v pass", got)
		}
		time.Sleep(15 * time.Second)
		if got := passed(); !slices.Equal(got, []string{"host-00001"}) {
			t.Errorf("after the time %v pass", got)
		}
		p := r.propose(query(1))
		if len(p.GetRejects()) != 1 || p.GetRejects()[0].GetFilter() != "ComputeFilter" || p.GetRejects()[0].GetDetail() != "down" {
			t.Errorf("rejects are %v", p.GetRejects())
		}
		silent.heartbeat()
		if got := passed(); len(got) != 2 {
			t.Errorf("heard again, %v pass", got)
		}
	})
}

func TestAStreamIsRefusedWhatDoesNotFit(t *testing.T) {
	r := start(t, newStore(t))
	a := r.agent()
	a.last = plainState(1, 8)
	a.heartbeat()
	m, err := a.stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if got := m.GetRefused(); got == nil || got.GetBootId() != bootA || got.GetVersion() != 1 || got.GetCell() != "cell1" {
		t.Errorf("a heartbeat before any state: %v", m)
	}
	bad := plainState(1, 8)
	bad.Providers[0].Inventories[0].AllocationRatio = -1
	bad.Providers[0].ParentUuid = "x"
	got := a.report(bad).GetRefused()
	if got.GetReason() != string(fault.InvalidRequest) || len(got.GetProblems()) != 2 ||
		!strings.HasPrefix(got.GetProblems()[0], "providers[0].parent_uuid: ") ||
		!strings.HasPrefix(got.GetProblems()[1], "providers[0].inventories[0].allocation_ratio: ") {
		t.Errorf("a bad state: %v", got)
	}
	if p := r.propose(query(1)); p.GetHosts() != 0 {
		t.Errorf("a refused state is in the table")
	}
	if m := a.report(plainState(1, 8)); m.GetAccepted() == nil {
		t.Fatalf("a better one was not accepted: %v", m)
	}
	if got := a.report(plainState(2, 8)).GetRefused(); len(got.GetProblems()) != 1 || !strings.HasPrefix(got.GetProblems()[0], "host_uuid: ") {
		t.Errorf("another host on the stream: %v", got)
	}

	if err := a.stream.Send(&agentv1.ReportRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.stream.Recv(); fault.KindOf(err) != fault.InvalidRequest {
		t.Errorf("an empty message ended the stream with %v", err)
	}
}

// A host that names another cell, or none, is refused: otherwise its capacity would be in two
// cells.
func TestAnAgentOfAnotherCellIsRefused(t *testing.T) {
	for named, says := range map[string]string{
		"cell2": `cell: the agent is of cell "cell2"; this is cell "cell1"`,
		"":      `cell: the agent names no cell; this is cell "cell1"`,
		"Cell1": `cell: the agent is of cell "Cell1"; this is cell "cell1"`,
	} {
		store := newStore(t)
		r := start(t, store)
		store.hook(func(ops []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
			t.Errorf("%q: %d operations were written", named, len(ops))
			return commit()
		})
		a := r.agent()
		s := plainState(1, 8)
		s.Cell = named
		if err := a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: s}}); err != nil {
			t.Fatal(err)
		}
		m, err := a.stream.Recv()
		if fault.KindOf(err) != fault.InvalidRequest || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v", named, m, err)
		}
		if p := r.propose(query(1)); p.GetHosts() != 0 {
			t.Errorf("%q: the host is in the table", named)
		}
	}
}

// The agent of an accepted stream cannot change its cell.
func TestAnAgentDoesNotChangeItsCell(t *testing.T) {
	r := start(t, newStore(t))
	a := r.register(plainState(1, 8))
	other := plainState(1, 16)
	other.Version, other.Cell = 2, "cell2"
	if err := a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: other}}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.stream.Recv(); fault.KindOf(err) != fault.InvalidRequest {
		t.Errorf("the stream went on: %v", err)
	}
	if p := r.propose(query(9)); p.GetPassed() != 0 {
		t.Error("the other cell's state was taken")
	}
}

func TestReportedInstancesBecomeClaims(t *testing.T) {
	r := start(t, newStore(t))
	s := plainState(1, 8)
	s.Instances = []*agentv1.Instance{{InstanceUuid: consumerUUID(1), Usages: []*agentv1.Usage{usage(hostUUID(1), "VCPU", 6)}}}
	r.register(s)
	q := query(3)
	q.ConsumerUuids = []string{consumerUUID(1)}
	p := r.propose(q)
	if p.GetPassed() != 0 {
		t.Errorf("an instance that is there is not counted: %v", p)
	}
	if len(p.GetClaims()) != 1 || !p.GetClaims()[0].GetAdopted() || len(p.GetClaimOrigins()) != 1 {
		t.Errorf("its consumer's claims are %v", p.GetClaims())
	}
}

func TestStreamsEndWithTheReplica(t *testing.T) {
	r := start(t, newStore(t))
	a := r.register(plainState(1, 8))
	ended := make(chan error, 1)
	go func() {
		_, err := a.stream.Recv()
		ended <- err
	}()
	r.stop()
	if err := <-ended; fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("the stream ended with %v", err)
	}
	_, err := (&scheduler{Cell: r.cell}).ProposeBatch(context.Background(), &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{query(1)}})
	if fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("a stopped replica answered %v", err)
	}
}

// While Nova's tables report the hosts, an agent may name hosts that have no row and count nowhere. Nothing of them
// stays after their streams.
func TestReport_HostWithoutARow_ForgottenWithItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		if g := r.reportLegacy(legacyOf("g1", 65, 1)).GetGate(); g.GetState() != legacyState {
			t.Fatalf("the gate is %v", g)
		}
		for n := range 3 {
			a := r.register(plainState(n, 8))
			if r.cell.agents.Reports.Newest(hostUUID(n)) == nil {
				t.Errorf("host %d has no report", n)
			}
			a.cancel()
			synctest.Wait()
			if r.cell.agents.Reports.Newest(hostUUID(n)) != nil {
				t.Errorf("the report of host %d stays", n)
			}
		}
	})
}
