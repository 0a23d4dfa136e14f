package main

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestGateText(t *testing.T) {
	since := timestamppb.New(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC))
	for want, g := range map[string]*cellgatev1.Gate{
		"":                      nil,
		"not known: it is gone": {Reason: "it is gone"},
		"NATIVE, epoch 4 since 2026-02-03T04:05:06Z":                  {State: cellgatev1.Gate_NATIVE, Epoch: 4, Since: since},
		"LEGACY, epoch 1, waits for: a; b; and 1 more":                {State: cellgatev1.Gate_LEGACY, Epoch: 1, WaitsFor: []string{"a", "b", "c"}},
		"SHADOW, epoch 2, pinned (not today), 7 compared, 1 differed": {State: cellgatev1.Gate_SHADOW, Epoch: 2, Pin: cellgatev1.Gate_SHADOW, PinReason: "not today", Compared: 7, Differed: 1},
	} {
		if got := gateText(g); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}
