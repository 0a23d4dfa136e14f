package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestCellsShowTheirBreakers(t *testing.T) {
	since := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	var out page
	showCell(&out, &cellgatev1.Cell{
		Cell: "cell1", Enabled: true, Reason: "breaker open", Replicas: []string{"a:1", "b:2"},
		ReplicaStates: []*cellgatev1.ReplicaState{
			{Address: "a:1", Breaker: cellgatev1.BreakerState_CLOSED, Since: since, LastError: "long ago"},
			{Address: "b:2", Breaker: cellgatev1.BreakerState_HALF_OPEN, Since: since, LastError: "could not be reached"},
		},
	})
	if !strings.Contains(out.String(), "\ncell1: breaker open\n") ||
		!strings.Contains(out.String(), "BREAKERS    closed, half-open since 2026-01-02T03:04:05Z: could not be reached\n") || strings.Contains(out.String(), "long ago") {
		t.Errorf("%s", out.String())
	}
}

// A cell that has never answered has no numbers, instead of zeros.
func TestListCells_NeverAnswered_ShowsNoNumbers(t *testing.T) {
	var out page
	showCells(&out, []*cellgatev1.Cell{{Cell: "cell1", Enabled: true, Reason: "away"}})
	if _, row, _ := strings.Cut(out.String(), "\n"); !strings.HasPrefix(row, "cell1  unavailable  -         -        -  ") {
		t.Errorf("%s", out.String())
	}
}

// The list of cells fits 100 columns for the fleet of `make run`, whatever the reason of an
// unavailable cell.
func TestListCells_LongReasons_FitsTheTerminal(t *testing.T) {
	resources := []*cellgatev1.ResourceTotals{
		{ResourceClass: "VCPU", Used: 24113, Capacity: 311224},
		{ResourceClass: "MEMORY_MB", Used: 81_300 << 10, Capacity: 514_300 << 10},
		{ResourceClass: "DISK_GB", Used: 477000, Capacity: 3873500},
		{ResourceClass: "CUSTOM_FPGA", Used: 12, Capacity: 40},
		{ResourceClass: "VGPU", Used: 12, Capacity: 160},
	}
	const why = "127.0.0.1:9102 could not be reached: connection error: desc = transport: Error while dialing: dial tcp 127.0.0.1:9102: connect: connection refused"
	cells := []*cellgatev1.Cell{
		{Cell: "cell1", Enabled: true, Available: true, TableVersion: "a", Hosts: 1000, HostsUp: 998, ClaimsPending: 120, ClaimsConfirmed: 4850, Resources: resources, AvailabilityZones: []string{"az1", "az2", "az3"}, Replicas: []string{"127.0.0.1:9101"}, Gate: &cellgatev1.Gate{State: cellgatev1.Gate_NATIVE}},
		{Cell: "cell2", Enabled: true, AnsweredAt: timestamppb.New(time.Now().Add(-3 * time.Minute)), TableVersion: "b", Hosts: 1000, HostsUp: 998, Reason: why, Resources: resources, Replicas: []string{"127.0.0.1:9102"}, ReplicaStates: []*cellgatev1.ReplicaState{{Breaker: cellgatev1.BreakerState_OPEN, LastError: why}}},
	}
	var out page
	showCells(&out, cells)
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(line)) - 1; n > 100 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	if !strings.Contains(out.String(), "\ncell2: 127.0.0.1:9102 could not be reached: ") || !strings.Contains(out.String(), "cell2  unavailable 3m  998/1000") || !strings.Contains(out.String(), "\ncell2: last answered 3m ago, at ") {
		t.Errorf("the reason is not shown:\n%s", out.String())
	}
	out.Reset()
	if showCell(&out, cells[1]); !strings.Contains(out.String(), why) {
		t.Errorf("the whole reason is not shown:\n%s", out.String())
	}
}
