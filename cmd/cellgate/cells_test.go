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
	var out strings.Builder
	err := showCells(&out, []*cellgatev1.Cell{{
		Cell: "cell1", Enabled: true, Reason: "breaker open", Replicas: []string{"a:1", "b:2"},
		ReplicaStates: []*cellgatev1.ReplicaState{
			{Address: "a:1", Breaker: cellgatev1.BreakerState_CLOSED, Since: since, LastError: "long ago"},
			{Address: "b:2", Breaker: cellgatev1.BreakerState_HALF_OPEN, Since: since, LastError: "could not be reached"},
		},
	}})
	if err != nil || !strings.Contains(out.String(), "unavailable: breaker open") ||
		!strings.Contains(out.String(), "closed, half-open since 2026-01-02T03:04:05Z: could not be reached  -\n") || strings.Contains(out.String(), "long ago") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// A cell that is answered from Nova's tables is not without hosts for want of agents.
func TestACellOfLegacyTablesIsAvailable(t *testing.T) {
	c := &cellgatev1.Cell{Cell: "cell1", Enabled: true, Available: true, Hosts: 3}
	for state, want := range map[cellgatev1.Gate_State]string{
		cellgatev1.Gate_LEGACY: "available", cellgatev1.Gate_SHADOW: "available", cellgatev1.Gate_NATIVE: "no hosts up",
	} {
		c.Gate = &cellgatev1.Gate{State: state}
		if got := cellState(c); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}
