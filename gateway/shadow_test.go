package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"cellgate/gateway/legacy"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// shadowing is a world of one SHADOW cell, whose table has native, and its rows rows.
func shadowing(t *testing.T, native, rows []schedule.Host) (*world, *fakeCell, *upgrading) {
	t.Helper()
	f, u := newFakeCell(1, native...), newUpgrading(1, rows...)
	for _, h := range rows {
		v := &h.View
		v.VCPUsUsed = h.Resources[0].Used
		v.TotalRAMMB, v.RAMRatio, v.TotalDiskGB, v.DiskRatio = h.Resources[1].Capacity, 1, h.Resources[2].Capacity, 1
		if v.FreeDiskMB == 0 {
			v.FreeDiskMB = v.TotalDiskGB*1024 - v.DiskUsedMB
		}
		u.reader.hosts = append(u.reader.hosts, legacy.Host{Host: h, DiskMeasured: v.FreeDiskMB < v.TotalDiskGB*1024-v.DiskUsedMB})
	}
	f.moveGate(cellgatev1.Gate_SHADOW)
	return startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil), f, u
}

func growingHosts() []schedule.Host {
	return []schedule.Host{testHost(1, 1), testHost(2, 2), testHost(3, 3)}
}

// toldOf sums what the cell was told of comparisons.
func (f *fakeCell) toldOf() (compared, differed int64, examples []*cellgatev1.ShadowDifference) {
	for _, r := range f.reported() {
		compared, differed = compared+r.GetCompared(), differed+r.GetDiffered()
		examples = append(examples, r.GetDifferences()...)
	}
	return compared, differed, examples
}

// A cell without requests is compared by probes, and one with requests by them; both
// are asked for what the other was.
func TestShadowOfEqualTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, _ := shadowing(t, growingHosts(), growingHosts())
		time.Sleep(5 * time.Second)
		compared, differed, _ := f.toldOf()
		if compared < 3*leastCompared || compared > 6*leastCompared || differed != 0 {
			t.Errorf("%d compared, %d differed in 5 s without requests", compared, differed)
		}
		req := ask(1, 1)
		req.GetRequestSpec().RequiredTraits = []string{"CUSTOM_NOWHERE"}
		w.refused(req, fault.NoValidHost)
		w.choose(ask(2, 1))
		time.Sleep(5 * time.Second)
		more, differed, examples := f.toldOf()
		if more <= compared || differed != 0 {
			t.Errorf("%d compared after %d, %d differed: %v", more, compared, differed, examples)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, q := range f.queries {
			if !q.GetShadow() {
				t.Fatalf("the cell was asked other than to compare: %v", q)
			}
			if len(q.GetTakes()) > 0 || len(q.GetConsumerUuids()) > 0 {
				t.Fatalf("it was asked more than to compare: %v", q)
			}
		}
	})
}

// Builds that failed and tasks under way are known to the rows alone: they are no difference.
func TestShadowOfBuildsAndTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := growingHosts()
		rows[2].View.FailedBuilds, rows[1].View.NumIOOps = 1, 9
		_, f, _ := shadowing(t, growingHosts(), rows)
		time.Sleep(30 * time.Second)
		if compared, differed, examples := f.toldOf(); compared == 0 || differed != 0 {
			t.Errorf("%d compared, %d differed: %v", compared, differed, examples)
		}
	})
}

func TestShadowOfTablesThatDiffer(t *testing.T) {
	used := testHost(3, 1)
	for _, c := range []struct {
		name   string
		native []schedule.Host
		want   string
	}{
		{"a host is missing", growingHosts()[:2], "host003 is in place 1 by the legacy rows, and in none by the cell's table"},
		{"another order", []schedule.Host{testHost(1, 1), testHost(2, 2), used}, "host002 stands elsewhere by the legacy rows than by the cell's table, in place 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, f, _ := shadowing(t, c.native, growingHosts())
				time.Sleep(1500 * time.Millisecond)
				if _, differed, _ := f.toldOf(); differed != 0 {
					t.Errorf("%d differ before they were asked again", differed)
				}
				time.Sleep(20 * time.Second)
				compared, differed, examples := f.toldOf()
				if differed == 0 || differed > compared {
					t.Fatalf("%d compared, %d differed", compared, differed)
				}
				found := false
				for _, e := range examples {
					found = found || e.GetDetail() == c.want && e.GetAt() != nil && strings.HasPrefix(e.GetLegacyFirst(), "host003")
				}
				if !found {
					t.Errorf("no example says %q: %v", c.want, examples)
				}
			})
		})
	}
}

// usedHost is a host with some of its vcpus in use, alike for all weighers.
func usedHost(n, vcpus int) schedule.Host {
	h := testHost(n, 1)
	h.Resources[0].Used = int64(vcpus)
	return h
}

// A host that has more free by the table than by its row differs, though nothing else
// does: claims would be made of what instances have. One that has less does not.
func TestShadowOfFreeAmounts(t *testing.T) {
	for _, c := range []struct {
		name         string
		native, rows int
		want         string
	}{
		{"more in the shard", 9, 10, "host002: VCPU free 6 by the rows, 7 by the shard"},
		{"less in the shard", 10, 9, ""},
		{"the same", 10, 10, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, f, _ := shadowing(t, []schedule.Host{testHost(1, 1), usedHost(2, c.native)}, []schedule.Host{testHost(1, 1), usedHost(2, c.rows)})
				time.Sleep(20 * time.Second)
				compared, differed, examples := f.toldOf()
				if compared == 0 || (differed > 0) != (c.want != "") {
					t.Fatalf("%d compared, %d differed: %v", compared, differed, examples)
				}
				for _, e := range examples {
					if e.GetDetail() != c.want {
						t.Errorf("an example says %q, want %q", e.GetDetail(), c.want)
					}
					if q := e.GetQuery(); !strings.Contains(q, "VCPU ") || !strings.Contains(q, "; filters HostFilter, ComputeFilter, ") || !strings.Contains(q, "; weighers RAMWeigher 1, ") || !strings.Contains(q, "; seed ") {
						t.Errorf("of the query it says %q", q)
					}
				}
			})
		})
	}
}

// In a cell of more hosts than are compared at once each has its turn; and what agrees
// is not told before what was asked earlier and is in doubt.
func TestShadowOfFreeAmountsOfAllHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var native, rows []schedule.Host
		for n := range 2*weighedHosts + 5 {
			native, rows = append(native, usedHost(n+1, 0)), append(rows, usedHost(n+1, 0))
		}
		last := len(rows)
		native[last-1], rows[last-1] = usedHost(last, 9), usedHost(last, 10)
		_, f, _ := shadowing(t, native, rows)
		want := fmt.Sprintf("host%03d: VCPU free 6 by the rows, 7 by the shard", last)
		var examples []*cellgatev1.ShadowDifference
		for second := 0; second < 30 && len(examples) == 0; second++ {
			time.Sleep(time.Second)
			_, _, examples = f.toldOf()
		}
		if !slices.ContainsFunc(examples, func(e *cellgatev1.ShadowDifference) bool { return e.GetDetail() == want }) {
			t.Errorf("no example says %q: %v", want, examples)
		}
		before := int64(0)
		for _, r := range f.reported() {
			if r.GetDiffered() > 0 {
				break
			}
			before += r.GetCompared()
		}
		if before > 2 { // the third has the host
			t.Errorf("%d compared before the first that differed", before)
		}
	})
}

// While one comparison is in doubt none that was begun after it is told.
func TestShadowTellsInOrder(t *testing.T) {
	c := newComparer(HypervisorRead{})
	first, second, third := c.begin(), c.begin(), c.begin()
	c.decide(second, comparisons{compared: 1})
	if got := c.take(); got.compared != 0 {
		t.Errorf("%d compared while one before is in doubt", got.compared)
	}
	c.decide(first, comparisons{compared: 1, differed: 1})
	if got := c.take(); got.compared != 2 || got.differed != 1 {
		t.Errorf("%d compared, %d differed, want 2 and 1", got.compared, got.differed)
	}
	c.decide(third, comparisons{})
	if got := c.take(); got.compared != 0 {
		t.Errorf("%d compared of one that told nothing", got.compared)
	}
}

// What differs and is the same when it is asked again does not count.
func TestShadowDifferenceThatPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f, _ := shadowing(t, growingHosts()[:2], growingHosts())
		time.Sleep(1500 * time.Millisecond)
		f.edit(func(e *schedule.Edit) { e.PutHost(testHost(3, 3)) })
		time.Sleep(20 * time.Second)
		if compared, differed, examples := f.toldOf(); compared == 0 || differed != 0 {
			t.Errorf("%d compared, %d differed: %v", compared, differed, examples)
		}
	})
}

// Hosts with claims under way are not compared: those that the cell awaits, and those
// that this gateway chose a moment ago.
func TestShadowLeavesBusyHostsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := testHost(3, 1)
		_, f, _ := shadowing(t, []schedule.Host{testHost(1, 1), testHost(2, 2), used}, growingHosts())
		f.mu.Lock()
		f.gate.awaited = []*cellv1.AwaitedClaim{{ClaimId: "c", HostUuid: used.UUID.String()}}
		f.mu.Unlock()
		time.Sleep(10 * time.Second)
		f.mu.Lock()
		f.gate.awaited, f.gate.unseen = nil, f.gate.awaited // its instance never came
		f.mu.Unlock()
		time.Sleep(30 * time.Second)
		if compared, differed, examples := f.toldOf(); compared == 0 || differed != 0 {
			t.Errorf("%d compared, %d differed: %v", compared, differed, examples)
		}
	})
}

// A claim whose instance never came takes of what its host has free: more than the row
// shows is a difference there too.
func TestShadowOfFreeAmountsBesideAClaimWithoutInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := usedHost(2, 9)
		_, f, _ := shadowing(t, []schedule.Host{testHost(1, 1), host}, []schedule.Host{testHost(1, 1), usedHost(2, 10)})
		f.mu.Lock()
		f.gate.unseen = []*cellv1.AwaitedClaim{{ClaimId: "c", HostUuid: host.UUID.String()}}
		f.mu.Unlock()
		time.Sleep(20 * time.Second)
		_, _, examples := f.toldOf()
		if len(examples) == 0 || examples[0].GetDetail() != "host002: VCPU free 6 by the rows, 7 by the shard" {
			t.Errorf("it was told %v", examples)
		}
	})
}

// A cell whose table does not answer is not compared, and its requests go on.
func TestShadowThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, _ := shadowing(t, growingHosts(), growingHosts())
		f.hook(func(ctx context.Context, method string, _ any) error {
			if method == "ProposeBatch" {
				return fault.New(fault.Overloaded, "too much to do")
			}
			return nil
		}, nil)
		time.Sleep(3 * time.Second)
		before, _, _ := f.toldOf()
		time.Sleep(5 * time.Second)
		w.choose(ask(1, 1))
		if compared, differed, _ := f.toldOf(); compared-before > leastCompared || differed != 0 {
			t.Errorf("%d compared, %d differed", compared-before, differed)
		}
	})
}

// What nobody heard of comparisons is told again.
func TestShadowCountsSurviveAReportThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f, _ := shadowing(t, growingHosts()[:2], growingHosts())
		time.Sleep(10 * time.Second)
		before, _, _ := f.toldOf()
		f.hook(func(_ context.Context, method string, req any) error {
			if r, ok := req.(*cellv1.ReportLegacyRequest); ok && !r.GetLook() {
				return fault.New(fault.Overloaded, "too much to do")
			}
			return nil
		}, nil)
		time.Sleep(5 * time.Second)
		f.hook(nil, nil)
		time.Sleep(1500 * time.Millisecond)
		if after, differed, _ := f.toldOf(); after-before < 4*leastCompared || differed == 0 {
			t.Errorf("%d compared in 6 s", after-before)
		}
	})
}

func TestShadowEndsWithTheStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f, _ := shadowing(t, growingHosts(), growingHosts())
		time.Sleep(3 * time.Second)
		f.moveGate(cellgatev1.Gate_NATIVE)
		time.Sleep(2 * time.Second)
		before, _, _ := f.toldOf()
		time.Sleep(5 * time.Second)
		if after, _, _ := f.toldOf(); after != before {
			t.Errorf("%d compared while NATIVE", after-before)
		}
	})
}

func TestDifferenceOfLists(t *testing.T) {
	list := func(passed int, hosts ...int) *schedule.Proposal {
		p := &schedule.Proposal{Passed: passed}
		for _, h := range hosts {
			p.Candidates = append(p.Candidates, schedule.Candidate{Host: testID(0xa, h), ServiceHost: "h"})
		}
		return p
	}
	busy := func(hosts ...int) map[string]bool {
		m := map[string]bool{}
		for _, h := range hosts {
			m[testUUID(0xa, h)] = true
		}
		return m
	}
	for _, c := range []struct {
		name           string
		a, b           *schedule.Proposal
		busy           map[string]bool
		differ, counts bool
	}{
		{"same", list(2, 1, 2), list(2, 1, 2), nil, false, true},
		{"none pass", list(0), list(0), nil, false, true},
		{"swapped", list(2, 1, 2), list(2, 2, 1), nil, true, true},
		{"swapped with a busy one", list(3, 1, 2, 3), list(3, 2, 3, 1), busy(1), false, true},
		{"one less, which is busy", list(3, 1, 2, 3), list(2, 2, 3), busy(1), false, true},
		{"one less", list(3, 1, 2, 3), list(2, 2, 3), nil, true, true},
		{"one less, another is busy", list(3, 1, 2, 3), list(2, 2, 3), busy(3), true, true},
		{"busy ones alone", list(2, 1, 2), list(2, 2, 1), busy(1, 2), false, false},
		{"cut off where busy ones stood", list(9, 1, 2, 3), list(9, 2, 3, 4), busy(1), false, true},
		{"cut off where more busy ones stood", list(99, 1, 2, 3, 4, 5), list(99, 1, 4, 5, 6, 7), busy(2, 3), false, true},
		{"cut off, another at the end", list(99, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), list(99, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12), nil, true, true},
		{"cut off, another among the first", list(99, 1, 2, 3), list(99, 1, 2, 4), nil, true, true},
		{"one stands elsewhere", list(9, 1, 2, 3, 4), list(9, 2, 3, 4, 1), nil, true, true},
		{"more pass", list(90, 1, 2), list(89, 1, 2), nil, true, true},
		{"as many more as are busy", list(90, 1, 2), list(89, 1, 2), busy(7), false, true}, // a cell of before does not tell which
		{"none against one", list(0), list(1, 1), busy(7), true, true},
	} {
		found, counts := suspectsOf(c.a, c.b, c.busy)
		if found.numbers(c.a, c.b, c.busy); len(found) > 0 {
			counts = true
		}
		if (len(found) > 0) != c.differ || counts != c.counts {
			t.Errorf("%s: %q, counts %v", c.name, found, counts)
		}
	}
}

// What a difference says of its query is all that it takes to ask it again, within bounds.
func TestQueryTextHasAllOfAQuery(t *testing.T) {
	r := &schedule.Request{
		Resources: []schedule.Amount{{Class: "VCPU", N: 2}, {Class: "MEMORY_MB", N: 4096}}, Required: []string{"HW_CPU_X86_AVX2"}, AvailabilityZone: "az1",
	}
	rules := &schedule.Rules{Filters: []string{"ComputeFilter", "ResourceFilter"}, Weighers: []schedule.Weigher{{Name: "RAMWeigher", Multiplier: -1.5}}}
	got := queryText(placementBytes(r, rules, mustID(testUUID(0xd, 1))), 42)
	for _, want := range []string{
		"VCPU 2, MEMORY_MB 4096; {", `"required_traits":["HW_CPU_X86_AVX2"]`, `"availability_zone":"az1"`, `"moving_instance":"` + testUUID(0xd, 1) + `"`,
		"; filters ComputeFilter, ResourceFilter; weighers RAMWeigher -1.5; seed 42",
	} {
		if !strings.Contains(strings.ReplaceAll(got, `: "`, `:"`), want) && !strings.Contains(strings.ReplaceAll(got, ": [", ":["), want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	for i := range 200 {
		r.IgnoreHosts = append(r.IgnoreHosts, fmt.Sprintf("hôte-%03d", i))
	}
	if got := queryText(placementBytes(r, rules, schedule.ID{}), 42); len(got) > 2048 || !strings.Contains(got, "…; filters ComputeFilter, ResourceFilter; ") || !strings.HasSuffix(got, "seed 42") || !utf8.ValidString(got) {
		t.Errorf("of many hosts it says %q", got)
	}
}
