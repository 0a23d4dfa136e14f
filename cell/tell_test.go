package cell

import (
	"strings"
	"testing"
)

// counts checks the sum of a metric's series whose labels have all the values. For a histogram it
// checks the count.
func (r *testCell) counts(want float64, name string, values ...string) {
	r.t.Helper()
	families, err := r.telemetry.Gatherer().Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := ","
			for _, l := range m.GetLabel() {
				labels += l.GetValue() + ","
			}
			all := f.GetName() == name
			for _, v := range values {
				all = all && strings.Contains(labels, ","+v+",")
			}
			if all {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	if sum != want {
		r.t.Errorf("%s%v is %v, want %v", name, values, sum, want)
	}
}

func TestMetricsOfACell(t *testing.T) {
	r := start(t, newStore(t))
	r.register(plainState(1, 4))
	r.register(plainState(2, 4))
	r.propose(query(1))
	r.must(newClaim("a", 1, 1, 3))
	out := r.do(newClaim("b", 2, 1, 3))
	if out[0].GetRefusal() == nil {
		t.Fatal("the second claim was taken")
	}
	r.must(confirm("a", 1))
	r.counts(2, "cellgate_cell_hosts", "cell1", "r1")
	r.counts(2, "cellgate_cell_hosts_up")
	r.counts(1, "cellgate_cell_claims", "confirmed")
	r.counts(0, "cellgate_cell_claims", "pending")
	r.counts(2, "cellgate_cell_agent_streams")
	r.counts(2, "cellgate_cell_host_states_total", "OK")
	r.counts(2, "cellgate_cell_operations_total", "put_host", "OK")
	r.counts(1, "cellgate_cell_operations_total", "claim", "OK")
	r.counts(1, "cellgate_cell_operations_total", "claim", "NO_VALID_HOST")
	r.counts(1, "cellgate_cell_operations_total", "confirm", "OK")
	r.counts(3, "cellgate_cell_requests_total", "ClaimBatch", "OK")
	r.counts(1, "cellgate_cell_propose_seconds")
	r.counts(3, "cellgate_cell_queue_wait_seconds", "urgent")
	r.counts(0, "cellgate_cell_queue_ops")
	r.counts(5, "cellgate_cell_transactions_total", "OK")
	r.counts(5, "cellgate_cell_transaction_seconds")
}
