package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	"cellgate/schedule"
)

// metric sums the series of a metric whose labels have all the given values.
func (w *world) metric(name string, values ...string) float64 {
	w.t.Helper()
	families, err := w.telemetry.Gatherer().Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := ","
			for _, l := range m.GetLabel() {
				labels += l.GetValue() + ","
			}
			all := true
			for _, v := range values {
				all = all && strings.Contains(labels, ","+v+",")
			}
			if all {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func (w *world) counts(want float64, name string, values ...string) {
	w.t.Helper()
	if got := w.metric(name, values...); got != want {
		w.t.Errorf("%s%v is %v, want %v", name, values, got, want)
	}
}

func TestMetricsOfASelection(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 9))}, nil)
	w.choose(ask(1, 1))
	w.choose(ask(2, 2))
	tooLarge := ask(4, 1)
	tooLarge.GetRequestSpec().Flavor.Vcpus = 1000
	w.refused(tooLarge, fault.NoValidHost)
	w.counts(2, "cellgate_gateway_requests_total", "SelectDestinations", "OK")
	w.counts(1, "cellgate_gateway_requests_total", "SelectDestinations", "NO_VALID_HOST")
	w.counts(3, "cellgate_gateway_request_seconds", "SelectDestinations")
	w.counts(3, "cellgate_gateway_instances_placed_total")
	w.counts(1, "cellgate_gateway_merge_rounds", "several")
	w.counts(2, "cellgate_gateway_rejected_hosts_total", "ResourceFilter")
	w.counts(2, "cellgate_gateway_cell_searches_total", "cell1", "searched")
	w.counts(2, "cellgate_gateway_stage_seconds", "answer")
	w.counts(0, "cellgate_gateway_partial_total")
	w.counts(0, "cellgate_gateway_inexact_total")
	w.counts(0, "cellgate_gateway_in_flight")
	if n := w.metric("cellgate_gateway_propose_batch_queries"); n < 4 || n != w.metric("cellgate_gateway_cell_call_seconds", "ProposeBatch") {
		t.Errorf("%v batches", n)
	}
}

func TestMetricsOfLostRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1))}, func(c *Config) { c.MaxDeadline = 5 * time.Second })
		w.cells[0].hook(func(_ context.Context, method string, req any) error {
			if method == "ClaimBatch" {
				for _, c := range claimsIn(req) {
					c.Allocations[0].Amount = 100000
				}
			}
			return nil
		}, nil)
		w.refused(ask(1, 1), fault.Contended)
		if n, attempts := w.metric("cellgate_gateway_races_lost_total"), len(w.cells[0].did()); n < 50 || n != float64(attempts) {
			t.Errorf("%v races lost at %d attempts", n, attempts)
		}
	})
}

func TestMetricsOfDoubtAndOfACellThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 9))}, nil)
		w.cells[1].isVague(fault.OutcomeUnknown)
		w.choose(ask(1, 2))
		synctest.Wait()
		w.counts(2, "cellgate_gateway_doubtful_claims_total", "cell2")
		w.counts(1, "cellgate_gateway_partial_total")
		w.counts(1, "cellgate_gateway_cell_searches_total", "cell2", "unavailable")
		w.servers[1].Stop()
		synctest.Wait()
		w.choose(ask(3, 1))
		synctest.Wait()
		w.counts(2, "cellgate_gateway_breaker_state", "cell2")
		w.counts(1, "cellgate_gateway_breaker_moves_total", "cell2", "open")
		w.counts(0, "cellgate_gateway_breaker_state", "cell1")
		if w.metric("cellgate_gateway_cell_call_errors_total", "cell2") == 0 {
			t.Error("no call to cell2 has failed")
		}
	})
}

// Values of hosts and aggregates that cannot be read are counted by the filter or weigher that needs them.
func TestMetricOfUnreadableHosts(t *testing.T) {
	odd := testHost(1, 8)
	odd.Aggregates = append(odd.Aggregates, schedule.Aggregate{
		UUID: testUUID(0xd, 1), Metadata: map[string]string{"ram_weight_multiplier": "much", "max_io_ops_per_host": "few"},
	})
	w := start(t, []*testCell{newCell(1, odd)}, func(c *Config) {
		c.Filters = append(schedule.DefaultFilters(), schedule.AggregateIoOpsFilter)
	})
	w.choose(ask(1, 1))
	const name = "cellgate_gateway_unreadable_hosts_total"
	w.counts(1, name, schedule.RAMWeigher)
	w.counts(1, name, schedule.AggregateIoOpsFilter)
	w.counts(0, name, "other")
}
