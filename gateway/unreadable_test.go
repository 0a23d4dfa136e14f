package gateway

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// A host that a filter cannot read is named, with what Nova raises: in the answer, in
// the decision that is kept, and in the log, there once a minute for a cell and filter.
func TestUnreadableHostsAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log safeBuffer
		w := startLogged(t, []*fakeCell{newFakeCell(1, testHost(1, 8)), newFakeCell(2, testHost(2, 8))}, func(c *Config) {
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
		said := w.g.unreadable.said[[2]string{"cell1", schedule.JSONFilter}]
		now := said.Add(sayAgain - 1)
		w.g.unreadable.now = func() time.Time { return now }
		try(2)
		lines(1)
		now = said.Add(sayAgain)
		try(3)
		lines(2)
	})
}
