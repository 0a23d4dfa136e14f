package systemtest

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway"
	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// A gateway over real cells names the hosts that a filter or weigher cannot read, with Nova's
// exception: in the answer, in the stored decision, and in the log.
func TestUnreadableHostsAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		v := verifying{log: slog.New(slog.NewTextHandler(&log, nil))}
		w := startWith(t, newNetwork(), v, func(c *gateway.Config) {
			c.Filters = append(schedule.DefaultFilters(), schedule.JSONFilter)
			c.Weighers = []rules.WeigherConfig{{Name: schedule.MetricsWeigher, Multiplier: 1}}
			c.Options = &rules.Options{HostSubsetSize: 1, MetricsSetting: []string{"cpu.percent=1"}, MetricsRequired: true}
		})
		const comparison = "'<' not supported between instances of 'str' and 'int'"
		rejected := func(reports []*cellgatev1.CellReport) (hosts []string) {
			for _, c := range reports {
				for _, r := range c.GetRejects() {
					if r.GetFilter() == schedule.JSONFilter && r.GetDetail() == schedule.Unreadable && r.GetHosts() == hostsEach &&
						r.GetExceptionClass() == "TypeError" && r.GetExceptionMessage() == comparison {
						hosts = append(hosts, c.GetCell()+" "+r.GetExample())
					}
				}
			}
			return hosts
		}
		warned := func(reports []*cellgatev1.CellReport) (hosts []string) {
			for _, c := range reports {
				for _, r := range c.GetWarnings() {
					if r.GetKey() == schedule.MetricsWeigher && r.GetHosts() == hostsEach && r.GetExceptionClass() == "ComputeHostMetricNotFound" &&
						r.GetExceptionMessage() == "Metric cpu.percent could not be found on the compute host node "+r.GetExample()+"."+r.GetExample()+"." {
						hosts = append(hosts, c.GetCell()+" "+r.GetExample())
					}
				}
			}
			return hosts
		}
		named := func(where string, hosts []string) {
			t.Helper()
			if want := []string{"cell1 host000", "cell2 host100"}; !slices.Equal(hosts, want) {
				t.Errorf("%s names %q, want %q", where, hosts, want)
			}
		}
		kept := func(id string) []*cellgatev1.CellReport {
			t.Helper()
			time.Sleep(time.Minute) // decisions are stored in batches, after the answer
			synctest.Wait()
			d, err := w.scheduler.GetDecision(t.Context(), &cellgatev1.GetDecisionRequest{DecisionId: id})
			must(t, err)
			return d.GetDecision().GetCells()
		}

		broken := request("filter", 1, 1)
		broken.GetRequestSpec().SchedulerHints = map[string]*cellgatev1.StringList{"query": {Values: []string{`["<", "$host", 5]`}}}
		_, err := w.scheduler.SelectDestinations(t.Context(), broken)
		var refused *fault.Error
		if !errors.As(err, &refused) || refused.Kind != fault.NoValidHost {
			t.Fatalf("a question that no host can be asked: %v", err)
		}
		named("the refusal", rejected(refused.Detail.(*cellgatev1.NoValidHost).GetCells()))
		named("its decision", rejected(kept(refused.Metadata["decision_id"])))

		resp, err := w.scheduler.SelectDestinations(t.Context(), request("weigher", 2, 1))
		must(t, err)
		named("the answer", warned(resp.GetCells()))
		named("its decision", warned(kept(resp.GetDecisionId())))

		for _, line := range []string{
			`cell=cell1 filter=JsonFilter hosts=2 host=host000 class=TypeError message="` + comparison + `"`,
			`cell=cell2 filter=JsonFilter hosts=2 host=host100 class=TypeError message="` + comparison + `"`,
			`cell=cell1 weigher=MetricsWeigher hosts=2 host=host000 class=ComputeHostMetricNotFound message="Metric cpu.percent could not be found on the compute host node host000.host000."`,
			`cell=cell2 weigher=MetricsWeigher hosts=2 host=host100 class=ComputeHostMetricNotFound message="Metric cpu.percent could not be found on the compute host node host100.host100."`,
		} {
			if n := strings.Count(log.String(), line); n != 1 {
				t.Errorf("%d lines of %s in the log:\n%s", n, line, log.String())
			}
		}
	})
}

// logged collects a log that several goroutines write.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
