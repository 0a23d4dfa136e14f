package importer

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/celltest"
	"cellgate/internal/testwait"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// schedulerOf is a cell with its shard in memory.
type schedulerOf struct {
	*testing.T
	cellv1.CellSchedulerClient
	reports agentv1.HostReportsClient
}

func newScheduler(t *testing.T) *schedulerOf {
	t.Helper()
	c := celltest.Start(t, "cell1", cellUUID)
	return &schedulerOf{T: t, CellSchedulerClient: c.Scheduler, reports: c.Reports}
}

// registers has an agent register host 1 that does not know its instances.
func (s *schedulerOf) registers() {
	s.Helper()
	stream, err := s.reports.Report(s.Context())
	if err == nil {
		err = stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: &agentv1.FullState{
			Cell: "cell1", HostUuid: hostID(1), ServiceHost: "host1", Nodename: "node1", AgentVersion: 1, BootId: hostID(99), Version: 1, InstancesUnknown: true,
			Providers: []*agentv1.Provider{{Uuid: hostID(1), Name: "node1", Inventories: []*agentv1.Inventory{{ResourceClass: vcpu, Total: 8, AllocationRatio: 1}}}},
		}}})
	}
	if err != nil {
		s.Fatal(err)
	}
	if answer, err := stream.Recv(); err != nil || answer.GetAccepted() == nil {
		s.Fatalf("%v, %v", answer, err)
	}
}

// claim makes and confirms the claim of a request for an instance on host 1, or gives the refusal.
func (s *schedulerOf) claim(instance int64, guest *cellv1.Guest) *cellv1.Refusal {
	s.Helper()
	id := fmt.Sprintf("claim-%d", instance)
	for _, op := range []*cellv1.ClaimOp{
		{Op: &cellv1.ClaimOp_Claim{Claim: &cellv1.NewClaim{
			ClaimId: id, ConsumerUuid: instanceID(instance), HostUuid: hostID(1), Ttl: durationpb.New(time.Hour), Guest: guest,
			Allocations: []*cellgatev1.Allocation{{ProviderUuid: hostID(1), ResourceClass: vcpu, Amount: 1}},
		}}},
		{Op: &cellv1.ClaimOp_Confirm{Confirm: &cellv1.ClaimRef{ClaimId: id, ConsumerUuid: instanceID(instance)}}},
	} {
		out, err := s.ClaimBatch(s.Context(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{op}})
		if err != nil {
			s.Fatal(err)
		}
		if r := out.GetOutcomes()[0].GetRefusal(); r != nil {
			return r
		}
	}
	return nil
}

// live returns the confirmed claims by instance, and whether each instance was seen.
func (s *schedulerOf) live() map[string]bool {
	s.Helper()
	out, err := s.ListClaims(s.Context(), &cellv1.ListClaimsRequest{PageSize: 100})
	if err != nil {
		s.Fatal(err)
	}
	live := map[string]bool{}
	for i, c := range out.GetClaims() {
		if c.GetState() == cellgatev1.ClaimState_CONFIRMED {
			live[c.GetConsumerUuid()] = out.GetInstanceSeen()[i]
		}
	}
	return live
}

// gatewayOn imports from a database with an Importer of its own.
type gatewayOn struct {
	*testing.T
	db     *legacytest.Database
	reader *novadb.Reader
	m      *Importer
	x      *novadb.Snapshot
}

func newGatewayOn(t *testing.T, d *legacytest.Database) *gatewayOn {
	t.Helper()
	m, err := New(Config{Cell: "cell1", Calls: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &gatewayOn{T: t, db: d, reader: readerOf(t, d), m: m}
}

func (g *gatewayOn) step(to Cell) Report {
	g.Helper()
	var err error
	if g.x, err = g.reader.Refresh(g.Context(), g.x); err != nil {
		g.Fatal(err)
	}
	r, err := g.m.Step(g.Context(), g.x, to)
	if err != nil || r.Refused > 0 {
		g.Fatalf("%+v, %v", r, err)
	}
	return r
}

func stamped(t *testing.T, d *legacytest.Database) string {
	t.Helper()
	return "'" + d.Now(t).Format("2006-01-02 15:04:05") + "'"
}

// A gateway that begins to read a copy of Nova's database that is behind ends no claim of an instance that the copy
// does not have yet. This holds whatever the server's clock says, and even if somebody writes heartbeats into the copy.
// Claims of instances that were deleted since end as usual.
func TestACopyThatIsBehindEndsNoClaim(t *testing.T) {
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		for _, c := range []struct {
			name           string
			agents, beaten bool
		}{
			{"imported hosts", false, false},
			{"agents that do not know their instances", true, false},
			{"imported hosts, and heartbeats in the copy", false, true},
			{"agents, and heartbeats in the copy", true, true},
		} {
			t.Run(c.name, func(t *testing.T) {
				source, behind := legacytest.NewCell(t, k.Shared(t)), legacytest.NewCell(t, k.Shared(t))
				now := source.Now(t).Truncate(time.Second).Add(-20 * time.Second)
				for _, d := range []*legacytest.Database{source, behind} {
					aCompute(t, d, now)
					d.Insert(t, "instances", rowOn(1, "host1", "node1", now))
				}
				to := newScheduler(t)
				if c.agents {
					to.registers()
				}
				fresh := newGatewayOn(t, source)
				until := func(what string, g *gatewayOn, done func() bool) {
					t.Helper()
					for end := time.Now().Add(testwait.Limit); !done(); g.step(to) {
						if time.Now().After(end) {
							t.Fatalf("%s is not so yet; live are %v", what, to.live())
						}
					}
				}
				until("the first instance has a claim", fresh, func() bool { return len(to.live()) == 1 })
				if r := to.claim(2, nil); r != nil {
					t.Fatal(r)
				}
				row := rowOn(2, "host1", "node1", source.Now(t).Truncate(time.Second))
				row["updated_at"] = source.Now(t).Truncate(time.Second)
				source.Insert(t, "instances", row)
				source.Exec(t, "UPDATE compute_nodes SET vcpus_used = 5, updated_at = "+stamped(t, source))
				source.Exec(t, "UPDATE services SET last_seen_up = "+stamped(t, source))
				until("the second instance was seen", fresh, func() bool { return to.live()[instanceID(2)] })

				late := newGatewayOn(t, behind)
				for range 10 {
					if c.beaten {
						behind.Exec(t, "UPDATE services SET last_seen_up = "+stamped(t, behind))
					}
					late.step(to)
					if live := to.live(); len(live) != 2 {
						t.Fatalf("a copy that is behind leaves %v", live)
					}
				}

				// The copy catches up, and the instances go.
				behind.Insert(t, "instances", row)
				until("both are gone", late, func() bool {
					for _, table := range []string{"UPDATE services SET last_seen_up = ", "UPDATE instances SET deleted = id, deleted_at = "} {
						behind.Exec(t, table+stamped(t, behind))
					}
					return len(to.live()) == 0
				})
			})
		}
	})
}

// Whatever the servers' clocks say, older data get lower versions than newer data. Of the same data, a later
// reading gets a higher version within the first 1000 s, and never a lower one.
func TestVersionsFollowTheData(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	reading := func(written, clock time.Duration) *novadb.Snapshot {
		return &novadb.Snapshot{Written: at.Add(written), Heartbeat: at.Add(written), At: at.Add(clock)}
	}
	var before uint64
	for _, x := range []*novadb.Snapshot{
		reading(-time.Hour, 10*time.Hour), reading(0, 0), reading(0, 2*time.Millisecond), reading(0, time.Minute), reading(0, time.Hour-time.Second),
		reading(time.Second, time.Second), reading(2*time.Second, 3*time.Second),
	} {
		m := importerOf(t, newNova(0))
		v := m.nextVersion(x)
		if again := m.nextVersion(x); v < before || again < v || x.At.Sub(x.Written) < 1000*time.Second && (v == before || again == v) {
			t.Errorf("written %v, by a clock of %v: %d and %d, after %d", x.Written, x.At, v, again, before)
		}
		before = v
	}
	// An Importer that gets an older copy reports this, and imports nothing.
	n := newNova(1)
	m, c := importerOf(t, n), newCell()
	x := n.snapshot()
	x.Written = x.At
	if r, err := m.Step(t.Context(), x, c); err != nil || r.Behind != 0 || r.Sent != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	n.hosts[1].Disabled = true
	n.touch(1)
	x = n.snapshot()
	x.Written = x.At.Add(-30 * time.Second)
	if r, err := m.Step(t.Context(), x, c); err != nil || r.Behind < 20*time.Second || r.Sent != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if v := m.nextVersion(x); v >= c.hosts[hostID(1)].state.GetVersion() {
		t.Errorf("older data have version %d, newer ones %d", v, c.hosts[hostID(1)].state.GetVersion())
	}
}

// The clock of a compute is ahead until somebody corrects it.
func TestStep_ClockOfAComputeIsCorrected_ImportsGoOn(t *testing.T) {
	n, c := newNova(1), newCell()
	n.on(1, 1)
	m := importerOf(t, n)
	at := func(ahead time.Duration) Report {
		t.Helper()
		n.now = n.now.Add(2 * time.Second)
		n.beat = n.now.Add(ahead)
		x := n.snapshot()
		x.Written, x.Heartbeat = n.beat, n.beat
		r, err := m.Step(t.Context(), x, c)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for range 3 {
		if r := at(50 * time.Second); r.Behind != 0 {
			t.Errorf("the clock is ahead: %+v", r)
		}
	}
	if r := at(-time.Second); r.Behind != 0 {
		t.Errorf("the clock is right: %+v", r)
	}
}

// A cell that has a newer import of a host refuses an older one. This is no failure: the host is sent
// again until its data are newer.
func TestAHostWithANewerImportIsSentAgain(t *testing.T) {
	n := newNova(1)
	m, c := importerOf(t, n), &refusing{newCell(), hostID(1), "STALE_GENERATION"}
	if r := step(t, m, n, c); r.Outdated != 1 || r.Refused != 0 || len(r.LeftOut) != 0 {
		t.Errorf("%+v", r)
	}
	if r := step(t, m, n, c); r.Outdated != 1 || r.Refused != 0 {
		t.Errorf("%+v", r)
	}
	c.host = ""
	for range mostConflictSteps {
		step(t, m, n, c)
	}
	if r := step(t, m, n, c); r.Outdated != 0 || c.hosts[hostID(1)] == nil {
		t.Errorf("%+v", r)
	}
}

// aCompute inserts host1 with 8 VCPU, and its nova-compute with a last heartbeat at a given time.
func aCompute(t *testing.T, d *legacytest.Database, at time.Time) {
	t.Helper()
	d.Insert(t, "compute_nodes", legacytest.Row{
		"id": 1, "uuid": hostID(1), "host": "host1", "hypervisor_hostname": "node1", "deleted": 0, "created_at": at, "updated_at": at,
		"vcpus": 8, "vcpus_used": 2, "memory_mb": 65536, "memory_mb_used": 0, "free_ram_mb": 65536, "local_gb": 1000, "local_gb_used": 0, "free_disk_gb": 1000,
		"hypervisor_type": "QEMU", "hypervisor_version": 6002000, "cpu_info": "{}", "supported_instances": "[]", "metrics": "[]", "stats": "{}",
	})
	d.Insert(t, "services", legacytest.Row{"id": 1, "host": "host1", "binary": "nova-compute", "report_count": 1, "deleted": 0, "version": 60, "last_seen_up": at})
}
