package main

import (
	"fmt"
	"io"
	"strings"
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
func showSample(w io.Writer, outcomes []outcome, took time.Duration, rules ownRules) error {
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := newTable(w, "#", "REQUEST", "VIA", "INSTANCES", "CELL", "HOST", "WEIGHT", "ALTERNATES, OR WHY REFUSED")
	count := map[string]int{}
	judged, instances := map[judgement]int{}, 0
	for i, o := range outcomes {
		count[o.got()]++
		j := rules.judge(o)
		judged[j]++
		mark := rules.mark(j, o.sample)
		lead := []any{i + 1, o.sample.Name, o.via, len(o.sample.Request.GetInstanceUuids())}
		if o.err != nil {
			t.row(append(lead, "", o.got(), "", mark+why(o.err, j))...)
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
	byRules := ""
	if len(rules.differ) > 0 {
		byRules = fmt.Sprintf("The sample is written for the default rules; this gateway has others, by which %d came otherwise: %s\n",
			judged[otherwise], strings.Join(rules.differ, ", "))
	}
	if rules.fleet != "" {
		byRules += fmt.Sprintf("The sample is written for a larger fleet; %d came otherwise in this one of %s\n", judged[otherwise], rules.fleet)
	}
	_, err := fmt.Fprintf(w, "\n%d requests in %v: %d placed (%d instances), %d refused for want of a host%s; %d unexpected\n%s",
		len(outcomes), took.Round(time.Millisecond), count[samples.Placed], instances, count[samples.Refused], failed, judged[unexpected], byRules)
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

// why is a refusal's counts, or another error's text. All counts of one that is not
// the expected one, since a filter of the operator's may be any of them.
func why(err error, j judgement) string {
	detail := refusal(err)
	if detail == nil {
		return wording(err)
	}
	show := shownRejects
	if j != expected {
		show = len(detail.GetRejects())
	}
	return fmt.Sprintf("0 of %d hosts: %s", detail.GetHosts(), rejectCounts(detail.GetRejects(), show))
}
