package standin

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"cellgate/gateway/legacy"
	"cellgate/internal/fault"
	"cellgate/internal/wire"
	"cellgate/internal/wire/wiretest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

func TestBeforeTheFirstRows(t *testing.T) {
	w := newWorld(t, 3)
	w.Chose(newClaim(1, 0), w.at.Add(time.Minute))
	_, err := w.ProposeBatch(t.Context(), &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{wiretest.Query(plain(1), "", nil)}})
	if fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("a query is answered %v", err)
	}
	if s := w.Summary(); !s.GetLoading() || s.GetCell() != cellName || s.GetCellUuid() != cellUUID {
		t.Errorf("summary %v", s)
	}
	if age := w.Age(w.at); age < 1000*time.Hour {
		t.Errorf("age %v", age)
	}
	w.update()
	if p := w.ask(plain(1)); p.Passed != 3 || w.used(0, vcpu) != 2 {
		t.Errorf("%d passed, %d used of what was chosen before", p.Passed, w.used(0, vcpu))
	}
	w.at = w.at.Add(7 * time.Second)
	if age := w.Age(w.at); age != 7*time.Second {
		t.Errorf("age %v", age)
	}
}

// A service that falls silent takes its host down without any row changing, and one
// that is heard again brings it back.
func TestSilentServicesGoDown(t *testing.T) {
	w := newWorld(t, 3)
	w.update()
	for _, n := range []int{0, 2} {
		w.rows[n].service.LastSeenUp = w.at.Add(50 * time.Second)
	}
	w.at = w.at.Add(70 * time.Second)
	w.update()
	if p := w.ask(plain(1)); p.Passed != 2 {
		t.Errorf("%d passed, want 2", p.Passed)
	}
	w.rows[1].service.LastSeenUp = w.at
	w.update()
	if p := w.ask(plain(1)); p.Passed != 3 {
		t.Errorf("%d passed, want 3", p.Passed)
	}
	w.rows[1].service.ForcedDown, w.rows[0].service.Disabled = true, true
	w.update()
	if s := w.Summary().GetTotals(); w.ask(plain(1)).Passed != 1 || s.GetHostsUp() != 1 || s.GetHosts() != 3 {
		t.Errorf("%d passed; %v", w.ask(plain(1)).Passed, s)
	}
}

// A version answers as it did while it is pinned, takes and all, and is GONE after.
func TestVersionsArePinned(t *testing.T) {
	w := newWorld(t, 2)
	for _, r := range w.rows {
		r.VCPUsUsed = 48
	}
	w.update()
	q := plain(16)
	first := w.raw(wiretest.Query(q, "", nil))
	w.Chose(newClaim(3, 0), w.at.Add(time.Minute))
	again := w.raw(wiretest.Query(q, first.GetTableVersion(), nil))
	if first.GetPassed() != 2 || again.GetPassed() != 2 || again.GetTableVersion() != first.GetTableVersion() || w.ask(q).Passed != 1 {
		t.Errorf("%d passed, then %d, and %d of the newest", first.GetPassed(), again.GetPassed(), w.ask(q).Passed)
	}
	q.Takes = []schedule.Take{{Host: hostID(1), Instance: instanceID(9)}}
	if p := w.askAt(q, first.GetTableVersion()); p.Passed != 1 {
		t.Errorf("%d passed beside what was taken", p.Passed)
	}
	w.at = w.at.Add(time.Minute)
	if p := w.raw(wiretest.Query(q, first.GetTableVersion(), nil)); p.GetFailure().GetReason() != string(fault.Gone) {
		t.Errorf("after its time: %v", p.GetFailure())
	}
	out, err := w.ProposeBatch(t.Context(), &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{
		wiretest.Query(plain(1), "", nil), {Limit: 0}, wiretest.Query(plain(2), "", nil),
	}})
	if err != nil || out.GetProposals()[0].GetPassed() != 2 || out.GetProposals()[1].GetFailure().GetReason() != string(fault.InvalidRequest) || out.GetProposals()[2].GetFailure() != nil {
		t.Errorf("a bad query beside others: %v, %v", out, err)
	}
}

// finding is a table of instances.
type finding struct {
	rows  []legacy.Instance
	asked [][]schedule.ID
	err   error
}

func (f *finding) find(_ context.Context, uuids []schedule.ID) ([]legacy.Instance, error) {
	f.asked = append(f.asked, uuids)
	var out []legacy.Instance
	for _, i := range f.rows {
		if id, err := schedule.ParseID(i.UUID); err == nil && slices.Contains(uuids, id) {
			out = append(out, i)
		}
	}
	return out, f.err
}

// Instances that a request names are found where their rows say, and where claims are.
func TestNamedInstancesAreFound(t *testing.T) {
	f := &finding{rows: []legacy.Instance{{UUID: instanceID(1).String(), Host: service(1)}, {UUID: instanceID(2).String(), Host: service(2)}}}
	w := newWorld(t, 5, func(c *Config) { c.Find = f.find })
	w.update(awaitedOf(newClaim(3, 3)))
	group := plain(1)
	group.Rules.Filters = []string{schedule.AntiAffinityFilter}
	group.Request.Group = &schedule.Group{
		UUID: schedule.ID{7}, Policy: schedule.AntiAffinity, MaxPerHost: 1, Members: []schedule.ID{instanceID(1), instanceID(2), instanceID(3), instanceID(4)},
	}
	p := w.ask(group)
	var on []string
	for _, g := range p.GroupHosts {
		on = append(on, g.ServiceHost)
	}
	if p.Passed != 2 || !slices.Equal(on, []string{service(1), service(2), service(3)}) {
		t.Errorf("%d passed, members on %v", p.Passed, on)
	}
	hint := plain(1)
	hint.Rules.Filters = []string{schedule.SameHostFilter}
	hint.Request.Nova = &schedule.NovaRequest{Hints: []schedule.Hint{{Name: "same_host", Values: []string{instanceID(2).String()}}}}
	if p := w.ask(hint); p.Passed != 1 || p.Candidates[0].Host != hostID(2) {
		t.Errorf("same_host: %+v", p.Candidates)
	}
	if len(f.asked) != 1 {
		t.Errorf("the database was asked %d times for what is known", len(f.asked))
	}

	// It moved: that is seen when FindFor is over. A node that comes later has it, too.
	f.rows[1].Host = service(4)
	w.at = w.at.Add(2 * time.Second)
	if p := w.ask(hint); p.Passed != 1 || p.Candidates[0].Host != hostID(4) {
		t.Errorf("after it moved: %+v", p.Candidates)
	}
	w.rows[4].gone = true
	w.update(awaitedOf(newClaim(3, 3)))
	if p := w.ask(hint); p.Passed != 0 {
		t.Errorf("its host is gone: %+v", p.Candidates)
	}
	w.rows[4].gone = false
	w.update(awaitedOf(newClaim(3, 3)))
	if p := w.ask(hint); p.Passed != 1 {
		t.Errorf("its host is back: %+v", p.Candidates)
	}

	f.err = errors.New("cut")
	w.at = w.at.Add(2 * time.Second)
	out, err := w.ProposeBatch(t.Context(), &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{
		wiretest.Query(hint, "", nil), wiretest.Query(plain(1), "", nil),
	}})
	if err != nil || out.GetProposals()[0].GetFailure().GetReason() != string(fault.CellUnavailable) || out.GetProposals()[1].GetPassed() != 5 {
		t.Errorf("a database that does not answer: %v, %v", out, err)
	}
	w.at = w.at.Add(2 * time.Minute)
	w.update()
	if len(w.named.at) != 0 {
		t.Errorf("%d instances are kept that nobody names", len(w.named.at))
	}
}

// Choices take devices, until they end.
func TestChoicesTakeDevices(t *testing.T) {
	w := newWorld(t, 2)
	pools := `[{"count": 1, "vendor_id": "10de", "product_id": "1db6", "numa_node": 0, "tags": {}}]`
	for n := range 2 {
		w.rows[n].PCIStats = &pools
	}
	w.update()
	q := plain(1)
	q.Rules.Filters = []string{schedule.PCIFilter}
	q.Request.Nova = &schedule.NovaRequest{PCI: []schedule.PCIRequest{{Count: 1, Specs: []schedule.PCISpec{{{Key: "vendor_id", Value: "10de"}}}}}}
	if p := w.ask(q); p.Passed != 2 {
		t.Fatalf("%d of 2 hosts have a device: %+v", p.Passed, p.Rejects)
	}
	c := newClaim(1, 0)
	c.Guest = &cellv1.Guest{PciRequests: wire.PCIOf(q.Request.Nova.PCI), JudgePci: true}
	w.Chose(c, w.at.Add(time.Minute))
	if p := w.ask(q); p.Passed != 1 || p.Candidates[0].Host != hostID(1) {
		t.Errorf("a device that was taken is free: %+v", p.Candidates)
	}
	w.Chose(newClaim(2, 0), w.at.Add(time.Minute))
	if p := w.ask(q); p.Passed != 1 {
		t.Errorf("another claim on the host gave its device back: %+v", p.Candidates)
	}
	w.Ended(c.GetClaimId())
	if p := w.ask(q); p.Passed != 2 {
		t.Errorf("the device is not back: %+v", p.Candidates)
	}
}

func TestSummary(t *testing.T) {
	w := newWorld(t, 3)
	w.aggregates[service(1)] = []schedule.Aggregate{{UUID: "d0000000-0000-4000-8000-000000000001", Name: "a", Metadata: map[string]string{"availability_zone": "az1", "filter_tenant_id": "p1"}}}
	w.update(awaitedOf(newClaim(3, 1)))
	s := w.Summary()
	if s.GetLoading() || !slices.Equal(s.GetAvailabilityZones(), []string{"az1"}) || !s.GetHasUnzonedHosts() || !slices.Contains(s.GetTenants(), "p1") || len(s.GetAggregates()) != 1 {
		t.Errorf("%v", s)
	}
	for _, l := range s.GetLargest() {
		if want := map[string]int64{vcpu: 16, memoryMB: 65536, diskGB: 1000}[l.GetResourceClass()]; l.GetAmount() != want {
			t.Errorf("the largest of %s is %d, want %d", l.GetResourceClass(), l.GetAmount(), want)
		}
	}
	if r := s.GetTotals().GetResources()[2]; r.GetResourceClass() != vcpu || r.GetCapacity() != 192 || r.GetUsed() != 4 || r.GetLargestFree() != 64 {
		t.Errorf("%v", r)
	}
	if s.GetTotals().GetTableVersion() != w.raw(wiretest.Query(plain(1), "", nil)).GetTableVersion() {
		t.Error("the summary is of another version")
	}
}

// Ratios without bounds, and amounts below zero, add up to totals all the same.
func TestTotalsOfOddRows(t *testing.T) {
	w := newWorld(t, 3)
	huge := 3e38
	for n := range 2 {
		w.change(n).CPUAllocationRatio = &huge
	}
	w.change(2).VCPUsUsed = -7
	w.update()
	for _, r := range w.Summary().GetTotals().GetResources() {
		if r.GetResourceClass() == vcpu && (r.GetCapacity() != 2*16*mostRatio+16*4 || r.GetUsed() != 0) {
			t.Errorf("the totals are %v", r)
		}
	}
}
