package gateway

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// A host that a weigher cannot read is named, too. For a key of metadata there is no
// exception, because Nova raises none.
func TestHostsThatWeighersCannotReadAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log safeBuffer
		odd := testHost(2, 8)
		odd.Aggregates = []schedule.Aggregate{{UUID: testUUID(0xd, 1), Metadata: map[string]string{"metrics_weight_multiplier": "much"}}}
		w := startLogged(t, []*testCell{newCell(1, testHost(1, 8)), newCell(2, odd)}, func(c *Config) {
			c.Weighers = []rules.WeigherConfig{{Name: schedule.MetricsWeigher, Multiplier: 1}}
			c.Options = &rules.Options{HostSubsetSize: 1, MetricsSetting: []string{"cpu.percent=1"}, MetricsRequired: true}
		}, slog.New(slog.NewTextHandler(&log, nil)))
		const class, message = "ComputeHostMetricNotFound", "Metric cpu.percent could not be found on the compute host node "
		resp := w.choose(ask(1, 1))
		w.choose(ask(2, 1))
		w.written()
		d, err := w.decision(resp.GetDecisionId())
		if err != nil {
			t.Fatal(err)
		}
		for i, cells := range [][]*cellgatev1.CellReport{resp.GetCells(), d.GetCells()} {
			if len(cells) != 2 || len(cells[0].GetWarnings()) != 1 || len(cells[1].GetWarnings()) != 2 {
				t.Fatalf("%d: %v", i, cells)
			}
			one, two, key := cells[0].GetWarnings()[0], cells[1].GetWarnings()[0], cells[1].GetWarnings()[1]
			if one.GetExample() != "host001" || one.GetExceptionClass() != class || one.GetExceptionMessage() != message+"host001.node001." ||
				two.GetExample() != "host002" || two.GetExceptionMessage() != message+"host002.node002." {
				t.Errorf("%d: %v, %v", i, one, two)
			}
			if key.GetKey() != "metrics_weight_multiplier" || key.GetExample() != "host002" || key.GetExceptionClass()+key.GetExceptionMessage() != "" {
				t.Errorf("%d: %v", i, key)
			}
		}
		for _, line := range []string{
			`cell=cell1 weigher=MetricsWeigher hosts=1 host=host001 class=` + class + ` message="` + message + `host001.node001."`,
			`cell=cell2 weigher=MetricsWeigher hosts=1 host=host002 class=` + class + ` message="` + message + `host002.node002."`,
			`cell=cell2 key=metrics_weight_multiplier hosts=1 host=host002`,
		} {
			if n := strings.Count(log.String(), line); n != 1 {
				t.Errorf("%d lines of %s:\n%s", n, line, log.String())
			}
		}
	})
}

// A host that a filter cannot read is named, with what Nova raises: in the answer, in
// the decision that is kept, and in the log, there once a minute for a cell and filter.
func TestUnreadableHostsAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log safeBuffer
		w := startLogged(t, []*testCell{newCell(1, testHost(1, 8)), newCell(2, testHost(2, 8))}, func(c *Config) {
			c.Filters = append(schedule.DefaultFilters(), schedule.JSONFilter)
		}, slog.New(slog.NewTextHandler(&log, nil)))
		const message = "'<' not supported between instances of 'str' and 'int'"
		named := func(rejects []*cellgatev1.RejectCount, host string, hosts int32) {
			t.Helper()
			for _, r := range rejects {
				if r.GetFilter() == schedule.JSONFilter && r.GetDetail() == schedule.Unreadable && r.GetHosts() == hosts &&
					r.GetExample() == host && r.GetExceptionClass() == "TypeError" && r.GetExceptionMessage() == message {
					return
				}
			}
			t.Errorf("%v do not name %s", rejects, host)
		}
		try := func(n int) *fault.Error {
			t.Helper()
			req := ask(n, 1)
			req.GetRequestSpec().SchedulerHints = map[string]*cellgatev1.StringList{"query": {Values: []string{`["<", "$host", 5]`}}}
			return w.refused(req, fault.NoValidHost)
		}
		lines := func(want int) {
			t.Helper()
			synctest.Wait()
			for _, cell := range []string{"cell=cell1 filter=JsonFilter hosts=1 host=host001", "cell=cell2 filter=JsonFilter hosts=1 host=host002"} {
				if got := strings.Count(log.String(), cell+` class=TypeError message="`+message+`"`); got != want {
					t.Errorf("%d lines of %s, want %d:\n%s", got, cell, want, log.String())
				}
			}
			if got := strings.Count(log.String(), "level=WARN"); got != 2*want {
				t.Errorf("%d warnings, want %d:\n%s", got, 2*want, log.String())
			}
		}
		e := try(1)
		answer := e.Detail.(*cellgatev1.NoValidHost)
		named(answer.GetRejects(), "host001", 2)
		lines(1)
		w.written()
		d, err := w.decision(e.Metadata["decision_id"])
		if err != nil {
			t.Fatal(err)
		}
		for i, cells := range [][]*cellgatev1.CellReport{answer.GetCells(), d.GetCells()} {
			if len(cells) != 2 {
				t.Fatalf("%d: cells %v", i, cells)
			}
			named(cells[0].GetRejects(), "host001", 1)
			named(cells[1].GetRejects(), "host002", 1)
		}
		try(2)
		lines(1)
		time.Sleep(time.Minute)
		try(3)
		lines(2)
	})
}
