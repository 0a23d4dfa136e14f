package main

import (
	"fmt"
	"io"
	"time"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/samples"
)

// How much of one request the sample's table shows.
const (
	shownInstances = 4
	shownRejects   = 3
)

// showSample prints one row an instance that was placed, one row a refusal, and
// the totals.
func showSample(w io.Writer, outcomes []outcome, took time.Duration) error {
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := newTable(w, "#", "REQUEST", "VIA", "INSTANCES", "CELL", "HOST", "WEIGHT", "ALTERNATES, OR WHY REFUSED")
	count := map[string]int{}
	unexpected, instances := 0, 0
	for i, o := range outcomes {
		mark := ""
		if count[o.got()]++; o.got() != o.sample.Expect {
			unexpected++
			mark = fmt.Sprintf("UNEXPECTED (%s was): ", o.sample.Expect)
		}
		lead := []any{i + 1, o.sample.Name, o.via, len(o.sample.Request.GetInstanceUuids())}
		if o.err != nil {
			t.row(append(lead, "", o.got(), "", mark+why(o.err))...)
			continue
		}
		instances += len(o.answer.GetDestinations())
		t.placed(lead, mark, o.answer)
	}
	if err := t.end(); err != nil {
		return err
	}
	failed := ""
	if n := len(outcomes) - count[samples.Placed] - count[samples.Refused]; n > 0 {
		failed = fmt.Sprintf(", %d failed", n)
	}
	_, err := fmt.Fprintf(w, "\n%d requests in %v: %d placed (%d instances), %d refused for want of a host%s; %d unexpected\n",
		len(outcomes), took.Round(time.Millisecond), count[samples.Placed], instances, count[samples.Refused], failed, unexpected)
	return err
}

// placed adds the rows of an answer; lead starts the first of them.
func (t *table) placed(lead []any, mark string, m *cellgatev1.SelectDestinationsResponse) {
	all := m.GetDestinations()
	for i, d := range all {
		if i == shownInstances && len(all) > shownInstances+1 {
			t.row(" ", " ", " ", " ", " ", fmt.Sprintf("and %d more", len(all)-i), " ", " ")
			return
		}
		if i > 0 {
			lead, mark = []any{" ", " ", " ", " "}, ""
		}
		s := d.GetSelected()
		notes := alternateNames(d)
		if !s.GetClaimed() {
			notes = "not claimed (dry run)"
		}
		t.row(append(lead[:4:4], s.GetCell(), s.GetServiceHost(), fmt.Sprintf("%.4f", s.GetWeight()), mark+notes)...)
	}
}

// why is a refusal's counts, or another error's text.
func why(err error) string {
	detail := refusal(err)
	if detail == nil {
		return wording(err)
	}
	return fmt.Sprintf("0 of %d hosts: %s", detail.GetHosts(), rejectCounts(detail.GetRejects(), shownRejects))
}
