package peers

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/internal/bench"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestReadPlan_Defaults_AreTheTable(t *testing.T) {
	p, err := readPlan(func(string) string { return "" })
	if err != nil || !slices.Equal(p.hosts, []int{100, 200, 400, 800, 10_000}) || !slices.Equal(p.orders, everyOrder) || p.each != 3*time.Second {
		t.Errorf("plan = %v, %v", p, err)
	}
}

func TestReadPlan_BadValue_NamesTheVariable(t *testing.T) {
	for name, value := range map[string]string{"PEERS_HOSTS": "100,few", "PEERS_ORDERS": "upward", "PEERS_SECONDS": "-1"} {
		_, err := readPlan(func(asked string) string {
			if asked == name {
				return value
			}
			return ""
		})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

func TestRow_Ratio_IsCellgateOverPlacement(t *testing.T) {
	r := row{placement: step{Rate: 4}, cellgate: step{Rate: 1000}}
	if got := r.ratio(); got != 250 {
		t.Errorf("ratio = %v, want 250", got)
	}
	if cells := (row{cellgate: step{Rate: 1000}}).cells(); cells[len(cells)-1] != "-" {
		t.Errorf("the ratio to nothing is %s, want -", cells[len(cells)-1])
	}
}

func TestReport_Markdown_HasARowAStep(t *testing.T) {
	r := &report{Filters: []filterTime{{Hosts: 800, Milliseconds: 39.26}}}
	for _, callers := range callerSteps {
		r.Steps = append(r.Steps,
			step{System: placementName, Hosts: 800, Order: spread, Callers: callers, Rate: 4.6, Latency: bench.Quantiles{P50: 211, P99: 480}, Lost: 3},
			step{System: cellgateName, Hosts: 800, Order: spread, Callers: callers, Rate: 1150, Latency: bench.Quantiles{P50: 5.25, P99: 19.96}, Errors: map[string]int{"x": 2}})
	}
	text := r.markdown()
	for _, want := range []string{
		"| 800 | spread | 1 | 4.60 | 211 | 480 | 3 | 0 | 1150 | 5.25 | 20.0 | 0 | 2 | 250 |\n",
		"| 800 | spread | 8 | 4.60 |", "| 800 | 39.3 |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestReport_Chart_IsXMLWithAPointAStep(t *testing.T) {
	r := &report{}
	for _, hosts := range []int{100, 10_000} {
		for _, system := range []string{placementName, cellgateName} {
			r.Steps = append(r.Steps, step{System: system, Hosts: hosts, Order: packFirst, Callers: 8, Rate: float64(hosts) / 10})
		}
	}
	text, points := r.chart(), 0
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "circle" {
			points++
		}
	}
	if points != len(r.Steps) || strings.Contains(text, "NaN") {
		t.Errorf("%d points for %d steps in\n%s", points, len(r.Steps), text)
	}
}

func TestCandidates_Choose_FollowsTheOrder(t *testing.T) {
	var c candidates
	err := json.Unmarshal([]byte(`{"allocation_requests": [
		{"allocations": {"half": {"resources": {"VCPU": 2}}}}, {"allocations": {"full": {"resources": {"VCPU": 2}}}},
		{"allocations": {"empty": {"resources": {"VCPU": 2}}}}],
		"provider_summaries": {
		"half": {"resources": {"VCPU": {"capacity": 64, "used": 32}, "MEMORY_MB": {"capacity": 4096, "used": 0}}},
		"full": {"resources": {"VCPU": {"capacity": 64, "used": 60}, "MEMORY_MB": {"capacity": 4096, "used": 0}}},
		"empty": {"resources": {"VCPU": {"capacity": 64, "used": 0}, "MEMORY_MB": {"capacity": 4096, "used": 0}}}}}`), &c)
	if err != nil {
		t.Fatal(err)
	}
	for o, want := range map[order]string{packFirst: "full", spread: "empty"} {
		if got := c.choose(o); got != want {
			t.Errorf("%s chooses %s, want %s", o, got, want)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		seen[c.choose(random)] = true
	}
	if len(seen) != 3 {
		t.Errorf("random chooses only %v", seen)
	}
	if got := (&candidates{}).choose(spread); got != "" {
		t.Errorf("of no candidates it chooses %s", got)
	}
}

// counting fails every third claim.
type counting struct {
	mu    sync.Mutex
	begun int
	held  map[string]bool
}

func (c *counting) claim(_ context.Context, consumer string) (lost int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun++; c.begun%3 == 0 {
		return 0, errors.New("refused")
	}
	c.held[consumer] = true
	return 1, nil
}

func (c *counting) free(_ context.Context, consumer string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, consumer)
	return nil
}

func TestMeasure_MostClaims_EndsAndGivesBack(t *testing.T) {
	c := &counting{held: map[string]bool{}}
	s, err := measure(t.Context(), c, 4, 29, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if s.Claims != 19 || s.Errors["refused"] != 10 || s.failed() != 10 || s.Lost != 19 || s.Rate <= 0 {
		t.Errorf("step = %+v, want 19 claims with a race lost each, and 10 errors", s)
	}
	if len(c.held) != 0 {
		t.Errorf("%d claims are left", len(c.held))
	}
}

func TestRoom_ScarcestClass_Decides(t *testing.T) {
	host := func(enabled bool, memoryUsed int32) *cellgatev1.Host {
		inv := func(class string, total, reserved, used int32, ratio float64) *cellgatev1.HostInventory {
			return &cellgatev1.HostInventory{ProviderUuid: "h", ResourceClass: class, Total: total, Reserved: reserved, Used: used, AllocationRatio: ratio}
		}
		return &cellgatev1.Host{HostUuid: "h", Enabled: enabled, Inventories: []*cellgatev1.HostInventory{
			inv("VCPU", 64, 0, 0, 4), inv("MEMORY_MB", 32768, 4096, memoryUsed, 1), inv("DISK_GB", 2000, 0, 0, 1), inv("VGPU", 1, 0, 1, 1),
		}}
	}
	if got := room([]*cellgatev1.Host{host(true, 0), host(true, 8192), host(false, 0)}); got != 7+5 {
		t.Errorf("room = %d, want 12", got)
	}
}
