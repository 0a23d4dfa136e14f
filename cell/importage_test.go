package cell

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/cell/replica"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// importing is a gateway that reports services, and imports the rows it has read.
type importing struct {
	*testCell
	version uint64
	age     time.Duration
	hosts   map[int][]int
}

// report imports the hosts with their instances, and reports services of a version.
func (g *importing) report(version int32) *cellgatev1.Gate {
	g.t.Helper()
	g.version++
	var all []int
	for n, instances := range g.hosts {
		all = append(all, n)
		if o := g.importHosts(importedState(n, g.version, instances...))[0]; o.GetFailure() != nil {
			g.t.Fatalf("host %d: %v", n, o)
		}
	}
	req := legacyOf("g1", version, all...)
	req.Revision, req.Importer = g.version, true
	g.reportLegacy(req) // the first report asks to be the importer
	req.ImportedAge = durationpb.New(g.age)
	return g.reportLegacy(req).GetGate()
}

// While its gate is not NATIVE a cell answers by the rows that were imported, as long as they are fresh.
func TestPropose_LegacyGate_AnswersFromFreshRowsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		g := &importing{testCell: r, hosts: map[int][]int{1: {7}, 2: nil}}
		is := func(when string, passed int32, refused string) {
			t.Helper()
			p := r.propose(query(1))
			if p.GetPassed() != passed || p.GetGate() != legacyState || !strings.Contains(p.GetFailure().GetMessage(), refused) || (refused == "") != (p.GetFailure() == nil) {
				t.Errorf("%s: %v", when, p)
			}
			if s := r.totals(); s.GetAvailable() != (refused == "") || !strings.Contains(s.GetReason(), refused) {
				t.Errorf("%s the summary is %v", when, s)
			}
		}
		r.reportLegacy(legacyOf("g1", 65, 1, 2))
		is("before the first import", 0, "no gateway has imported all of them yet")
		if gate := g.report(65); gate.GetRowsAt() == nil {
			t.Errorf("the gate is %v", gate)
		}
		is("after it", 2, "")
		if s := r.totals(); s.GetHostsUp() != 2 || s.GetHostsImported() != 2 || s.GetClaimsConfirmed() != 1 {
			t.Errorf("the totals are %v", s)
		}
		time.Sleep(replica.MaxRowsAge + 3*time.Second)
		is("when nobody imported for a while", 0, "were last imported 33s ago")
		g.age = replica.MaxRowsAge + time.Second
		g.report(65)
		is("of rows that were read long ago", 0, "were last imported 3")
		g.age = 0
		g.report(65)
		is("imported again", 2, "")
		for range 2 * time.Minute / (replica.MaxRowsAge / 2) {
			time.Sleep(replica.MaxRowsAge / 2)
			g.report(65)
		}
		is("imported for longer than an agent may be silent", 2, "")
		if h := r.do(newClaim("a", 3, 1, 8))[0]; h.GetRefusal() == nil {
			t.Error("a claim of more than the row leaves was made")
		}
		r.must(newClaim("a", 3, 1, 7))
	})
}

func TestListHosts_Imported_ShowWhenNovasTablesWereRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		g := &importing{testCell: r, hosts: map[int][]int{1: nil, 2: nil}, age: 5 * time.Second}
		read := g.report(65).GetRowsAt()
		root := shard.ProviderWrite{UUID: hostUUID(2), HostUUID: hostUUID(2), Create: true}
		if out, err := r.cell.queue.DoOne(t.Context(), shard.Op{WritePlacement: &shard.WritePlacement{Providers: []shard.ProviderWrite{root}}}, false); err != nil || out.Refusal != nil {
			t.Fatal(out, err)
		}
		time.Sleep(3 * time.Second)
		hosts, err := r.cells.ListHosts(t.Context(), &cellv1.ListHostsRequest{})
		if err != nil || len(hosts.GetHosts()) != 2 {
			t.Fatal(hosts, err)
		}
		for _, h := range hosts.GetHosts() {
			if !h.GetImported() || h.GetPlacementTree() != (h.GetHostUuid() == hostUUID(2)) || !proto.Equal(h.GetImportedAt(), read) {
				t.Errorf("%v, read at %v", h, read)
			}
		}
	})
}

// The first import opens the cell and marks its hosts up in one step. A query in between gets
// "closed", never hosts that are down.
func TestPropose_WhileGateOpens_NeverFindsHostsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		between, asking := 0, false
		// The writer reads the time after the rows have the gate, but before the table has it.
		r.cell.table.StoreTime.Machine = func() time.Time {
			if g := r.cell.rows.GateRow(); asking || g == r.cell.rows.TableGate.Load() || g.RowsAt.IsZero() {
				return time.Now()
			}
			between++
			asking = true
			if p := r.propose(query(1)); p.GetFailure().GetReason() != "CELL_UNAVAILABLE" {
				t.Errorf("the rows have the gate, the table has not, and the proposal is %v", p)
			}
			if s := r.totals(); s.GetAvailable() {
				t.Errorf("the rows have the gate, the table has not, and the summary is %v", s)
			}
			asking = false
			return time.Now()
		}
		g := &importing{testCell: r, hosts: map[int][]int{1: nil}}
		g.report(65)
		if p := r.propose(query(1)); p.GetPassed() != 1 || between != 1 {
			t.Errorf("after %d moves of the gate: %v", between, p)
		}
	})
}

// In LEGACY and SHADOW an agent's report is held and compared, and the row stays Nova's. When the
// gate becomes NATIVE, the agent's next heartbeat writes its state. When the gate falls back, the
// row is Nova's again.
func TestAnAgentUnderAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		g := &importing{testCell: r, hosts: map[int][]int{1: {7}}}
		g.report(66)
		agents := plainState(1, 8)
		agents.Providers[0].Traits = []string{"CUSTOM_AGENTS"}
		a := r.register(agents)
		row := func(when string, imported bool) {
			t.Helper()
			if h := r.cell.rows.HostInService(hostUUID(1)); h == nil || h.Imported != imported || (len(h.Providers[0].Traits) > 0) == imported {
				t.Errorf("%s the row is %+v", when, h)
			}
		}
		row("in LEGACY", true)
		list, err := r.cells.ListHosts(t.Context(), &cellv1.ListHostsRequest{})
		if err != nil || !list.GetHosts()[0].GetImported() || list.GetHosts()[0].GetAgentVersion() != 1 || !list.GetHosts()[0].GetUp() {
			t.Errorf("listed is %v, %v", list.GetHosts(), err)
		}
		until := func(to cellgatev1.Gate_State) *cellgatev1.Gate {
			t.Helper()
			for from := time.Now(); ; {
				gate := g.report(66)
				if gate.GetState() == to {
					return gate
				}
				if time.Since(from) > 10*time.Minute {
					t.Fatalf("the gate is %v", gate)
				}
				time.Sleep(2 * time.Second)
				a.heartbeat()
			}
		}
		until(shadowState)
		// The agent does not report the instance that Nova has on the host.
		time.Sleep(2 * time.Second)
		gate := g.report(66)
		if d := gate.GetHostDifferences(); len(d) != 1 || d[0].GetKind() != cellgatev1.HostDifference_INSTANCES || !strings.Contains(d[0].GetDetail(), consumerUUID(7)) || gate.GetDifferingHosts() != 1 {
			t.Errorf("what differs is %v", d)
		}
		next := proto.CloneOf(agents)
		next.Version, next.Instances = 2, []*agentv1.Instance{instanceOn(1, 7)}
		a.report(next)
		if gate = g.report(66); len(gate.GetHostDifferences()) != 0 {
			t.Errorf("what differs is %v", gate.GetHostDifferences())
		}
		row("in SHADOW", true)
		until(nativeState)
		a.heartbeat()
		synctest.Wait()
		row("in NATIVE", false)
		r.usedVCPUs(1, 1)
		g.report(66)
		row("after the next import", false)
		if gate = g.report(65); gate.GetState() != legacyState {
			t.Errorf("with an old service the gate is %v", gate)
		}
		g.report(65)
		row("fallen back", true)
		r.usedVCPUs(1, 1)
	})
}

// apartStore is a shard whose time is an hour behind the machine's clock.
type apartStore struct{ *testStore }

func (s apartStore) Now(ctx context.Context) (time.Time, error) {
	now, err := s.testStore.Now(ctx)
	return now.Add(-time.Hour), err
}

// The age of an import is in store time from the start on.
func TestPropose_StoreTimeApart_AnswersOnceImported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, apartStore{newStore(t)})
		g := &importing{testCell: r, hosts: map[int][]int{1: nil}}
		g.report(65)
		if p := r.propose(query(1)); p.GetPassed() != 1 {
			t.Errorf("it proposes %v", p)
		}
	})
}
