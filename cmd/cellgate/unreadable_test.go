package main

import (
	"strings"
	"testing"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A stored decision names a host that could not be read, and why. No byte of the message can
// control the terminal.
func TestADecisionNamesUnreadableHosts(t *testing.T) {
	d := &cellgatev1.Decision{DecisionId: "cell1.1", Refusal: "NO_VALID_HOST", Cells: []*cellgatev1.CellReport{
		{Cell: "cell1", Hosts: 9, Rejects: []*cellgatev1.RejectCount{
			{Filter: "ResourceFilter", Detail: "VCPU", Hosts: 2},
			{Filter: "JsonFilter", Detail: "unreadable", Hosts: 7, Example: "host7", ExceptionClass: "TypeError", ExceptionMessage: "no\x1b[2J\tnumber"},
		}},
		{Cell: "cell2", Warnings: []*cellgatev1.WarningCount{
			{Key: "MetricsWeigher", Hosts: 2, Example: "host2", ExceptionClass: "ComputeHostMetricNotFound", ExceptionMessage: "Metric\r cpu.percent"},
			{Key: "ram_weight_multiplier", Hosts: 4},
		}, Rejects: []*cellgatev1.RejectCount{{Filter: "JsonFilter", Detail: "unreadable", Hosts: 3, Example: "old1"}}},
	}}
	var out page
	showDecision(&out, d)
	want := `
CELL   READ BY                UNREADABLE  ONE OF THEM  NOVA RAISES
cell1  JsonFilter             7           host7        TypeError: no\x1b[2J\tnumber
cell2  JsonFilter             3           old1         -
cell2  MetricsWeigher         2           host2        ComputeHostMetricNotFound: Metric\r cpu.percent
cell2  ram_weight_multiplier  4           -            -
`
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %s\nwant it to end with %s", out.String(), want)
	}
	d.Cells[0].Rejects, d.Cells[1].Rejects = d.Cells[0].Rejects[:1], nil
	d.Cells[1].Warnings = nil
	out.Reset()
	if showDecision(&out, d); strings.Contains(out.String(), "UNREADABLE") {
		t.Errorf("%s", out.String())
	}
}
