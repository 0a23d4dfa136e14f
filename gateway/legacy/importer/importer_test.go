package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// An instance is on its host from the second pass that has it, if compute_nodes was read after the first. Until then
// the instance's share of the row's usage is unaccounted for.
func TestAnInstanceCountsFromTheSecondPass(t *testing.T) {
	n, cell := newNova(1), newCell()
	m := importerOf(t, n)
	step(t, m, n, cell)
	n.on(1, 1)
	n.hosts[1].View.VCPUsUsed = 2
	n.touch(1)
	x := n.snapshot()
	if r, err := m.Step(t.Context(), x, cell); err != nil || r.Adopted != 0 || r.Taken != 1 {
		t.Errorf("the first pass: %+v, %v", r, err)
	}
	if got := unaccounted(cell, 1, vcpu); got != 2 {
		t.Errorf("%d VCPU are unaccounted for, of 2 in use", got)
	}
	if r, err := m.Step(t.Context(), x, cell); err != nil || r.Adopted != 0 {
		t.Errorf("compute_nodes is from before: %+v, %v", r, err)
	}
	if r := step(t, m, n, cell); r.Adopted != 1 {
		t.Errorf("the next pass: %+v", r)
	}
	if got := unaccounted(cell, 1, vcpu); got != 0 {
		t.Errorf("%d VCPU are unaccounted for beside the instance", got)
	}
}

func unaccounted(c *fakeCell, host int64, class string) int32 {
	for _, i := range c.hosts[hostID(host)].state.GetProviders()[0].GetInventories() {
		if i.GetResourceClass() == class {
			return i.GetUnaccounted()
		}
	}
	return -1
}

// A new Importer does not undo what its predecessor sent: hosts whose instances were written a moment ago wait a pass.
func TestImporter_NewIncarnation_ReleasesNothing(t *testing.T) {
	n, cell := newNova(3), newCell()
	m := importerOf(t, n)
	n.on(1, 1)
	n.on(2, 2)
	n.now = n.now.Add(time.Hour)
	if r := step(t, m, n, cell); r.Adopted != 2 || r.Held != 0 || r.Taken != 3 {
		t.Errorf("rows that are an hour old: %+v", r)
	}
	n.put(1, func(r *novadb.Instance) { r.TaskState = "rebooting" })
	m = importerOf(t, n)
	if r := step(t, m, n, cell); r.Held != 1 || r.Sent != 2 || r.Released != 0 {
		t.Errorf("the first step of a new Importer: %+v", r)
	}
	if r := step(t, m, n, cell); r.Sent != 1 || r.Released != 0 || r.Adopted != 0 || r.Waiting != 0 {
		t.Errorf("its second step: %+v", r)
	}
	if len(cell.claims) != 2 {
		t.Errorf("%d claims", len(cell.claims))
	}
}

// A state that the cell took is not sent again until a full pass, or until another gateway may have imported.
func TestEqualStatesAreSentOnce(t *testing.T) {
	n, cell := newNova(5), newCell()
	m := importerOf(t, n)
	if r := step(t, m, n, cell); r.Sent != 5 || !r.Full {
		t.Errorf("%+v", r)
	}
	n.touch(3) // another row that says the same
	if r := step(t, m, n, cell); r.Sent != 0 || r.Full {
		t.Errorf("nothing changed: %+v", r)
	}
	n.services[2].Disabled, n.services[2].DisabledReason = true, "broken fan"
	n.hosts[2].Disabled = true
	if r := step(t, m, n, cell); r.Sent != 1 || cell.hosts[hostID(2)].state.GetDisabledReason() != "broken fan" {
		t.Errorf("a service was disabled: %+v", r)
	}
	n.hosts[4].Aggregates = []schedule.Aggregate{{UUID: instanceID(1), Name: "fast", Metadata: map[string]string{"availability_zone": "az1"}}}
	if r := step(t, m, n, cell); r.Sent != 1 || cell.hosts[hostID(4)].state.GetAggregates()[0].GetMetadata()["availability_zone"] != "az1" {
		t.Errorf("an aggregate came: %+v", r)
	}
	n.now = n.now.Add(11 * time.Minute)
	if r := step(t, m, n, cell); r.Sent != 5 || !r.Full {
		t.Errorf("after FullEvery: %+v", r)
	}
	m.Again()
	if r := step(t, m, n, cell); r.Sent != 5 || !r.Full {
		t.Errorf("again: %+v", r)
	}
	if version := cell.hosts[hostID(1)].state.GetVersion(); version < uint64(n.now.Add(-time.Minute).UnixMicro()) {
		t.Errorf("the version %d is no time of the server", version)
	}
}

// An Importer that ends before or after any call, or in the midst of the rows, leaves what
// the next one completes.
func TestCrashesAtEveryCall(t *testing.T) {
	build := func() *nova {
		n := newNova(7)
		for i := range int64(14) {
			n.on(i+1, i%7+1)
		}
		n.now = n.now.Add(time.Hour)
		return n
	}
	crashed := 0
	for _, at := range []string{"before", "after", "rows"} {
		for k := 1; ; k++ {
			n, cell := build(), newCell()
			fail := func(call int) error {
				if call == k {
					return errCut
				}
				return nil
			}
			pages := 0
			switch at {
			case "before":
				cell.before = fail
			case "after":
				cell.after = fail
			default:
				n.fail = func() error { pages++; return fail(pages) }
			}
			small := func(c *Config) { c.BatchHosts = 2 }
			m := importerOf(t, n, small)
			_, err := m.Step(t.Context(), n.snapshot(), cell)
			if err == nil {
				break
			}
			if !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			crashed++
			cell.before, cell.after = nil, nil
			// Rows change while nobody imports: one instance goes, one host does.
			n.put(3, func(r *novadb.Instance) { r.Deleted, r.DeletedAt = true, n.now })
			delete(n.hosts, 5)
			m = importerOf(t, n, small)
			for range 4 {
				step(t, m, n, cell)
			}
			for id, want := range n.expected() {
				if got := cell.used(id); !same(got, want) {
					t.Errorf("%s call %d: host %s holds %v, the rows say %v", at, k, id, got, want)
				}
			}
			if h := cell.hosts[hostID(5)]; h != nil && !h.state.GetDisabled() {
				t.Errorf("%s call %d: a host without a row is enabled", at, k)
			}
		}
	}
	if crashed < 4+4+4 {
		t.Errorf("only %d crashes", crashed)
	}
}

// The same Importer goes on where it was cut.
func TestAStepGoesOnWhereTheLastOneWasCut(t *testing.T) {
	n, cell := newNova(6), newCell()
	m := importerOf(t, n, func(c *Config) { c.BatchHosts = 2 })
	cell.before = func(call int) error {
		if call == 2 {
			return errCut
		}
		return nil
	}
	r, err := m.Step(t.Context(), n.snapshot(), cell)
	if !errors.Is(err, errCut) || r.Sent != 2 || r.Waiting != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r := step(t, m, n, cell); r.Sent != 4 || r.Waiting != 0 {
		t.Errorf("%+v", r)
	}
}

// Steps and calls are bounded, and no host is passed over.
func TestStepsAreBounded(t *testing.T) {
	n, cell := newNova(10), newCell()
	m := importerOf(t, n, func(c *Config) { c.StepHosts, c.BatchHosts = 4, 3 })
	for k, want := range []struct{ sent, waiting int }{{4, 6}, {4, 3}, {3, 0}, {1, 0}} {
		if r := step(t, m, n, cell); r.Sent != want.sent || r.Waiting != want.waiting {
			t.Errorf("step %d: %+v", k, r)
		}
		// A host that changes all the time is sent no sooner than the others.
		n.hosts[1].View.NumIOOps++
		n.touch(1)
	}
	if !slices.Equal(cell.sizes, []int{3, 1, 3, 1, 3, 1}) {
		t.Errorf("calls of %v hosts", cell.sizes)
	}
	n, big := newNova(40), newCell()
	for _, h := range n.hosts {
		h.Facts = schedule.ParseFacts(schedule.FactTexts{CPUInfo: strings.Repeat("x", 65_000)})
	}
	if step(t, importerOf(t, n), n, big); len(big.sizes) != 2 || len(big.hosts) != 40 {
		t.Errorf("%d hosts in calls of %v", len(big.hosts), big.sizes)
	}
}

// Hosts whose rows changed go before those that a full pass sends again, of which a step sends
// no more than one call's.
func TestStep_ChangedAmongHostsSentAgain_ChangedFirst(t *testing.T) {
	const hosts = againHosts + 40
	n, cell := newNova(hosts), newCell()
	m := importerOf(t, n)
	if r := step(t, m, n, cell); r.Sent != hosts || r.Waiting != 0 {
		t.Errorf("the first import: %d sent, %d wait", r.Sent, r.Waiting)
	}
	n.now = n.now.Add(11 * time.Minute)
	n.hosts[hosts].View.NumIOOps = 3
	n.touch(hosts)
	cell.sent = nil
	if r := step(t, m, n, cell); !r.Full || r.Sent != againHosts+1 || r.Waiting != 39 {
		t.Errorf("after FullEvery: %d sent, %d wait", r.Sent, r.Waiting)
	}
	if first := cell.sent[0].GetState().GetHostUuid(); first != hostID(hosts) {
		t.Errorf("the first host is %s", first)
	}
	if r := step(t, m, n, cell); r.Sent != 39 || r.Waiting != 0 {
		t.Errorf("the rest: %d sent, %d wait", r.Sent, r.Waiting)
	}
	m.Again()
	if r := step(t, m, n, cell); r.Sent != hosts || r.Waiting != 0 {
		t.Errorf("after another gateway: %d sent, %d wait", r.Sent, r.Waiting)
	}
}

// gated is a cell whose calls end when the test says so.
type gated struct {
	Cell
	begun chan int
	end   chan error
}

func (g *gated) ImportHosts(ctx context.Context, in *cellv1.ImportHostsRequest, _ ...grpc.CallOption) (*cellv1.ImportHostsResponse, error) {
	g.begun <- len(in.GetHosts())
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-g.end:
		if err != nil {
			return nil, err
		}
	}
	return &cellv1.ImportHostsResponse{Outcomes: slices.Repeat([]*cellv1.ImportOutcome{{}}, len(in.GetHosts()))}, nil
}

// Several calls are under way at once. The first that fails ends the others, no other call begins,
// and hosts without an answer wait.
func TestStep_SeveralCallsAtOnce_EndWithTheFirstFailure(t *testing.T) {
	n := newNova(9)
	m := importerOf(t, n, func(c *Config) { c.Calls, c.BatchHosts = 3, 1 })
	cell := &gated{Cell: newCell(), begun: make(chan int), end: make(chan error)}
	type outcome struct {
		r   Report
		err error
	}
	ended := make(chan outcome)
	go func() {
		r, err := m.Step(t.Context(), n.snapshot(), cell)
		ended <- outcome{r, err}
	}()
	for range 3 {
		<-cell.begun
	}
	cell.end <- nil
	<-cell.begun // the fourth
	cell.end <- errCut
	got := <-ended
	if !errors.Is(got.err, errCut) || got.r.Sent != 1 || got.r.Waiting != 8 {
		t.Errorf("%d sent, %d wait, %v", got.r.Sent, got.r.Waiting, got.err)
	}
}

// A host without a row is disabled from the second step that misses it, and keeps the
// claims of instances whose rows are there; one that comes back is as before.
func TestAHostThatGoes(t *testing.T) {
	n, cell := newNova(2), newCell()
	m := importerOf(t, n)
	n.on(1, 1)
	n.on(2, 1)
	n.now = n.now.Add(time.Hour)
	step(t, m, n, cell)
	was := n.hosts[1]
	delete(n.hosts, 1)
	if r := step(t, m, n, cell); r.Sent != 0 {
		t.Errorf("the first step without it: %+v", r)
	}
	if r := step(t, m, n, cell); r.Sent != 1 || r.Gone != 1 || r.LeftOutBy[NoRow] != 2 || r.Released != 0 {
		t.Errorf("the second: %+v", r)
	}
	if s := cell.hosts[hostID(1)].state; !s.GetDisabled() || !strings.Contains(s.GetDisabledReason(), "no row in compute_nodes") || len(s.GetInstances()) != 2 {
		t.Errorf("%v", s)
	}
	total := func() (n, classes int32) {
		for _, i := range cell.hosts[hostID(1)].state.GetProviders()[0].GetInventories() {
			n, classes = n+i.GetTotal(), classes+1
		}
		return n, classes
	}
	if n, classes := total(); n != 0 || classes != 3 {
		t.Errorf("it has %d of %d classes while instances are on it", n, classes)
	}
	n.put(1, func(r *novadb.Instance) { r.Deleted, r.DeletedAt = true, n.now })
	// A new Importer knows the host from the cell's list.
	m = importerOf(t, n)
	n.now = n.now.Add(time.Hour)
	step(t, m, n, cell)
	step(t, m, n, cell)
	if len(cell.claims) != 1 || !cell.hosts[hostID(1)].state.GetDisabled() {
		t.Errorf("%d claims", len(cell.claims))
	}
	n.put(2, func(r *novadb.Instance) { r.Deleted, r.DeletedAt = true, n.now })
	steps(t, m, n, cell)
	if _, classes := total(); classes != 0 || len(cell.claims) != 0 {
		t.Errorf("without instances it has %d classes and %d claims", classes, len(cell.claims))
	}
	n.put(2, func(r *novadb.Instance) { r.Deleted, r.DeletedAt = false, time.Time{} })
	steps(t, m, n, cell)
	n.hosts[1] = was
	n.touch(1)
	if r := step(t, m, n, cell); r.Gone != 0 || cell.hosts[hostID(1)].state.GetDisabled() || cell.used(hostID(1))["VCPU"] != 2 {
		t.Errorf("it is back: %+v", r)
	}
}

// While tables are restored they are empty, and a wrong address leads to those of another cell. No claim ends because
// of that. Once the rows are back, each instance has its claim.
func TestStep_AllHostsGoAtOnce_NothingIsSent(t *testing.T) {
	n, cell := newNova(2), newCell()
	n.on(1, 1)
	n.now = n.now.Add(time.Hour)
	m := importerOf(t, n)
	steps(t, m, n, cell)
	for _, m := range []*Importer{m, importerOf(t, n)} {
		hosts, rows := n.hosts, n.rows
		n.hosts, n.rows = nil, nil
		for range 4 {
			n.now = n.now.Add(time.Hour)
			if r, err := m.Step(t.Context(), n.snapshot(), cell); fault.KindOf(err) != fault.CellUnavailable || r.Sent != 0 {
				t.Errorf("%v, %+v", err, r)
			}
		}
		n.hosts, n.rows = hosts, rows
		if steps(t, m, n, cell); len(cell.claims) != 1 || cell.hosts[hostID(1)].state.GetDisabled() || cell.used(hostID(1))[vcpu] != 2 {
			t.Errorf("%d claims, %v", len(cell.claims), cell.hosts[hostID(1)].state)
		}
	}
	// A cell whose hosts were all deleted has nothing to lose.
	cell = newCell()
	n.hosts, n.rows = nil, nil
	for _, m := range []*Importer{m, importerOf(t, n)} {
		_, _ = m.Step(t.Context(), n.snapshot(), cell)
		step(t, m, n, cell)
	}
}

// After an instance moved, the new host's state is sent again until the claim on the old host has ended.
func TestAMoveEndsOnOneHost(t *testing.T) {
	n, cell := newNova(2), newCell()
	m := importerOf(t, n, func(c *Config) { c.StepHosts = 1 })
	n.on(1, 2)
	n.now = n.now.Add(time.Hour)
	for range 3 {
		step(t, m, n, cell)
	}
	cell.claims[instanceID(1)].adopted = false // a request made it: no report releases it
	n.on(1, 1)
	conflicts := 0
	for range 8 {
		conflicts += step(t, m, n, cell).ClaimedElsewhere
	}
	if conflicts < 2 || conflicts > 5 || cell.claims[instanceID(1)].host != hostID(2) {
		t.Errorf("%d conflicts", conflicts)
	}
	delete(cell.claims, instanceID(1)) // its migration was confirmed
	for range mostConflictSteps {
		step(t, m, n, cell)
	}
	if c := cell.claims[instanceID(1)]; c == nil || c.host != hostID(1) {
		t.Errorf("%+v", c)
	}
}

// A host that cannot be sent does not keep the other hosts out. The report names the host, and
// instances that cannot be imported.
func TestWhatCannotBeImportedIsNamed(t *testing.T) {
	n, cell := newNova(5), newCell()
	n.hosts[2].Facts = schedule.ParseFacts(schedule.FactTexts{CPUInfo: strings.Repeat("x", 70_000)})
	n.hosts[3].View.DiskRatio = -1
	n.hosts[4].View.TotalRAMMB = 1 << 40
	n.on(1, 1)
	n.put(1, func(r *novadb.Instance) { r.Incomplete = true })
	n.on(2, 9)
	n.on(3, 1)
	n.put(3, func(r *novadb.Instance) { r.VCPUs = -1 })
	n.on(4, 1)
	n.put(4, func(r *novadb.Instance) { r.UUID = "none" })
	n.now = n.now.Add(time.Hour)
	m := importerOf(t, n)
	for range 2 {
		r := step(t, m, n, cell)
		if len(cell.hosts) != 2 || r.LeftOutBy[BadHost] != 3 || r.LeftOutBy[NullAmount] != 1 || r.LeftOutBy[NoRow] != 1 || r.LeftOutBy[BadAmount] != 1 || r.LeftOutBy[BadUUID] != 1 {
			t.Fatalf("%d hosts, %+v", len(cell.hosts), r)
		}
		text := fmt.Sprint(r.LeftOut)
		for _, want := range []string{"cpu_info has 70000 bytes; at most", "disk_allocation_ratio is -1", "memory_mb is 1099511627776", instanceID(1), "host9", "vcpus is -1", `row 4 of instances: "none"`} {
			if !strings.Contains(text, want) {
				t.Errorf("nothing of %q in %s", want, text)
			}
		}
	}
	n.put(1, func(r *novadb.Instance) { r.Incomplete = false })
	n.addHost(9)
	step(t, m, n, cell)
	if r := step(t, m, n, cell); r.LeftOutBy[NullAmount]+r.LeftOutBy[NoRow] != 0 {
		t.Errorf("they are whole by now: %+v", r)
	}
}

// A host that the cell refuses for good is named, and not sent until it changes. A host that the cell refuses for the
// moment is sent by the next step.
func TestRefusals(t *testing.T) {
	n := newNova(3)
	for _, c := range []struct {
		kind fault.Kind
		sent int
	}{{fault.InvalidRequest, 0}, {fault.Contended, 1}} {
		cell := &refusing{newCell(), hostID(2), c.kind}
		m := importerOf(t, n)
		if r := step(t, m, n, cell); r.Refused != 1 || r.Taken != 2 || r.LeftOutBy[RefusedByCell] != 1 {
			t.Errorf("%s: %+v", c.kind, r)
		}
		if r := step(t, m, n, cell); r.Sent != c.sent || r.LeftOutBy[RefusedByCell] != 1 {
			t.Errorf("%s: the next step %+v", c.kind, r)
		}
		cell.host = ""
		n.hosts[2].View.NumIOOps++
		n.touch(2)
		if r := step(t, m, n, cell); r.Taken != 1 || len(r.LeftOutBy) != 0 {
			t.Errorf("%s: not refused any more: %+v", c.kind, r)
		}
	}
}

// A worker imports what it is offered, until another gateway imports.
func TestWorker(t *testing.T) {
	n, cell := newNova(3), newCell()
	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan Report, 10)
	w := NewWorker(importerOf(t, n, func(c *Config) { c.StepHosts = 2 }), cell, func(r Report, err error) {
		if err != nil {
			t.Error(err)
		}
		reports <- r
	})
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	w.Offer(n.snapshot(), false)
	if a, b := <-reports, <-reports; a.Sent != 2 || b.Sent != 1 {
		t.Errorf("%+v, %+v", a, b)
	}
	w.Offer(nil, false)
	w.Offer(n.snapshot(), false)
	if a, b := <-reports, <-reports; !a.Full || a.Sent != 2 || b.Sent != 1 {
		t.Errorf("after another gateway: %+v, %+v", a, b)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A repetition of all hosts takes many steps. Meanwhile the rows are imported as before.
func TestWorker_HostsOnlyRepeated_CountAsImported(t *testing.T) {
	n, cell := newNova(3*againHosts), newCell()
	ages := make(chan time.Duration, 10)
	var w *Worker
	w = NewWorker(importerOf(t, n), cell, func(r Report, err error) {
		age, is := w.Age()
		if err != nil || !is {
			t.Errorf("%+v, imported: %t, %v", r, is, err)
		}
		ages <- age
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	w.Offer(n.snapshot(), false)
	<-ages
	n.now = n.now.Add(11 * time.Minute)
	w.Offer(n.snapshot(), false)
	for step := range 3 {
		if age := <-ages; age > time.Minute {
			t.Errorf("step %d after FullEvery: the rows were imported %v ago", step, age)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := New(Config{}); fault.KindOf(err) != fault.InvalidRequest {
		t.Errorf("%v", err)
	}
	m := importerOf(t, newNova(0), func(c *Config) { c.MaxInstances = 1 })
	n := newNova(1)
	n.on(1, 1)
	n.on(2, 1)
	m.conf.Rows = n
	if _, err := m.Step(t.Context(), n.snapshot(), newCell()); fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("more instances than are kept: %v", err)
	}
}

// A comparison says what an import would do, and after it everything is equal.
func TestCompare(t *testing.T) {
	n, cell := newNova(6), newCell()
	for i := range int64(5) {
		n.on(i+1, i+1)
	}
	n.now = n.now.Add(time.Hour)
	m := importerOf(t, n)
	for range 2 {
		step(t, m, n, cell)
	}
	n.on(6, 1)                                                                  // to adopt
	n.put(2, func(r *novadb.Instance) { r.Deleted, r.DeletedAt = true, n.now }) // to release
	n.hosts[2].View.DiskUsedMB -= 20 * 1024
	n.touch(2)
	cell.claims[instanceID(3)].pending = true   // to confirm
	cell.claims[instanceID(4)].host = hostID(6) // elsewhere
	cell.claims[instanceID(4)].adopted = false  //
	cell.hosts[hostID(5)].agent = true          // an agent's
	n.on(9, 5)                                  // its agent does not say so
	n.hosts[1].View.CPURatio = 0.1              // over capacity, and changed
	n.touch(1)
	n.addHost(7) // new
	n.hosts[3].View.DiskRatio = -1
	delete(n.hosts, 6) // gone
	n.put(8, func(r *novadb.Instance) { r.Host, r.Incomplete = "host1", true })
	calls := cell.calls
	d, err := importerOf(t, n).Compare(t.Context(), n.snapshot(), cell)
	if err != nil || cell.calls != calls {
		t.Fatal(err, cell.calls)
	}
	want := map[What]int{
		HostNew: 1, HostChanged: 1, HostEqual: 2, HostAgents: 1, HostGone: 1, HostLeftOut: 1,
		InstanceAdopted: 1, InstanceReleased: 1, InstanceEqual: 1, InstanceConflict: 1, InstanceLeftOut: 1, OverCapacity: 1, InstanceWithoutClaim: 1,
	}
	for what, k := range want {
		if d.Counts[what] != k {
			t.Errorf("%s: %d, want %d", what, d.Counts[what], k)
		}
	}
	if len(d.Counts) != len(want) || !strings.Contains(fmt.Sprint(d.Lines), "VCPU ratio 4 -> 0.1") {
		t.Errorf("%+v", d)
	}
	n.hosts[3].View.DiskRatio = 1
	n.touch(3)
	if d, err = importerOf(t, n).Compare(t.Context(), n.snapshot(), cell); err != nil || d.Counts[InstanceConfirmed] != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	m = importerOf(t, n)
	for range 3 {
		n.now = n.now.Add(time.Hour)
		step(t, m, n, cell)
	}
	if d, err = importerOf(t, n).Compare(t.Context(), n.snapshot(), cell); err != nil {
		t.Fatal(err)
	}
	for _, what := range []What{HostNew, HostChanged, InstanceAdopted, InstanceConfirmed, InstanceReleased} {
		if d.Counts[what] != 0 {
			t.Errorf("after an import, %s: %d, %+v", what, d.Counts[what], d.Lines)
		}
	}
}

// When the gate falls back, a worker sends the hosts of agents at once, also one that its agent took over from an
// import of the same rows.
func TestWorker_GateFallsBack_HostsOfAgentsAreImported(t *testing.T) {
	n, cell := newNova(2), newCell()
	cell.agents(1)
	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan Report, 10)
	w := NewWorker(importerOf(t, n, func(c *Config) { c.FullEvery = 24 * time.Hour }), cell, func(r Report, err error) {
		if err != nil {
			t.Error(err)
		}
		reports <- r
	})
	if _, is := w.Age(); is {
		t.Error("something is imported before the first offer")
	}
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	w.Offer(n.snapshot(), true)
	if r := <-reports; r.OwnedByAgents != 1 || r.Taken != 1 {
		t.Errorf("%+v", r)
	}
	<-w.Imported()
	if _, is := w.Age(); !is {
		t.Error("nothing is imported as a whole")
	}
	w.Offer(n.snapshot(), true)
	if r := <-reports; r.Sent != 0 {
		t.Errorf("nothing changed: %+v", r)
	}
	cell.agents(2)
	cell.closed = true
	w.Offer(n.snapshot(), false)
	if r := <-reports; r.Sent != 2 || r.Taken != 2 || cell.hosts[hostID(1)].agent || cell.hosts[hostID(2)].agent {
		t.Errorf("fallen back: %+v", r)
	}
	w.Offer(nil, false)
	if _, is := w.Age(); is {
		t.Error("another gateway imports, and something is imported")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Measured disk space counts for the weight of a host, and keeps no instance from it: Placement, which decides what
// fits, does not know the measurement.
func TestStep_MeasuredDisk_WeighsAndTakesNoRoom(t *testing.T) {
	for _, c := range []struct{ free, filled int64 }{{600, 0}, {500, 100}, {0, 600}, {-50, 650}} {
		n, cell := newNova(1), newCell()
		n.hosts[1].View.FreeDiskMB = c.free * 1024
		step(t, importerOf(t, n), n, cell)
		for _, i := range cell.hosts[hostID(1)].state.GetProviders()[0].GetInventories() {
			if i.GetResourceClass() == diskGB && (int64(i.GetFilled()) != c.filled || i.GetUnaccounted() != 400 || i.GetTotal() != 1000) {
				t.Errorf("of a disk of 1000 GB with 400 in use, %d free as measured: %v", c.free, i)
			}
		}
	}
}
