package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestGateText(t *testing.T) {
	since := timestamppb.New(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC))
	wordy := []string{strings.Repeat("many words of it ", 10), "b"}
	for want, g := range map[string]*cellgatev1.Gate{
		"":                                    nil,
		"not known":                           {Reason: "it is gone"},
		"NATIVE since 2026-02-03T04:05:06Z":   {State: cellgatev1.Gate_NATIVE, Epoch: 4, Since: since},
		"NATIVE, 2 hosts without a new agent": {State: cellgatev1.Gate_NATIVE, LaggingHosts: 2},
		"LEGACY, waits for 7 hosts":           {State: cellgatev1.Gate_LEGACY, LaggingHosts: 7, WaitsFor: wordy},
		"LEGACY, waits for: many words of it many words of it many words of it many …": {State: cellgatev1.Gate_LEGACY, WaitsFor: wordy},
		"LEGACY, no agent has registered: hosts come from Nova's tables":               {State: cellgatev1.Gate_LEGACY, Hosts: 7, LaggingHosts: 7, WaitsFor: wordy},
		"LEGACY, waits for 2 hosts":           {State: cellgatev1.Gate_LEGACY, Hosts: 7, Registered: 5, LaggingHosts: 2, WaitsFor: wordy},
		"LEGACY, waits for 1 host":            {State: cellgatev1.Gate_LEGACY, LaggingHosts: 1, Readers: []*cellgatev1.GateReader{{Gateway: "g1"}}},
		"NATIVE":                              {State: cellgatev1.Gate_NATIVE, Readers: []*cellgatev1.GateReader{{RequiredVersion: proto.Int32(66)}, {}}},
		"SHADOW, pinned, 1 of 7 hosts differ": {State: cellgatev1.Gate_SHADOW, Pin: cellgatev1.Gate_SHADOW, PinReason: "not today", WaitsFor: wordy, Hosts: 7, DifferingHosts: 1},
	} {
		if got := gateText(g); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

func TestShowCells_WithoutAgents_SayWhereHostsComeFrom(t *testing.T) {
	var out page
	showCells(&out, []*cellgatev1.Cell{{Cell: "cell1", Gate: &cellgatev1.Gate{State: cellgatev1.Gate_LEGACY, Hosts: 3, LaggingHosts: 3}}})
	if want := "\ncell1: gate LEGACY, no agent has registered: hosts come from Nova's tables\n"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
}

// Details of the gate that do not fit into the table are listed below it, for one cell.
func TestShowCellHasAllOfTheGate(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC))
	c := &cellgatev1.Cell{Cell: "cell1", Gate: &cellgatev1.Gate{
		State: cellgatev1.Gate_SHADOW, Epoch: 5, Since: at, Reason: "all new", Pin: cellgatev1.Gate_SHADOW, PinReason: "rack 7", WaitsFor: []string{"this", "that"},
		Services: 9, MinVersion: 61, RequiredVersion: 66, Registered: 3, Hosts: 4, LaggingHosts: 1,
		Lagging: []*cellgatev1.LaggingHost{{Host: "host7", ServiceVersion: 61, LastSeen: at, Reason: "it is old"}},
		Readers: []*cellgatev1.GateReader{
			{Gateway: "ctl2 (10.0.0.2:9100)", ReadTo: at, Lag: durationpb.New(90 * time.Second), Imports: true, RequiredVersion: proto.Int32(67), ServiceDownTime: durationpb.New(time.Hour)},
			{Gateway: "ctl1 (10.0.0.1:9100)", ReadTo: at, Lag: durationpb.New(0)},
			{Gateway: "ctl3", Unreadable: "no route", RequiredVersion: proto.Int32(66), ServiceDownTime: durationpb.New(time.Minute)},
			{Gateway: "ctl4", RequiredVersion: proto.Int32(0)},
		},
		DifferingHosts: 1, HostDifferences: []*cellgatev1.HostDifference{{Kind: cellgatev1.HostDifference_CAPACITY, Host: "host8", Detail: "row says 48 VCPU"}},
	}}
	var out page
	showCell(&out, c)
	for _, want := range []string{
		"\ngate SHADOW, epoch 5: all new\n", "\npinned at SHADOW: rack 7\n", "\nservices that count: 9, of version 61 or newer, 66 is required\n",
		"\nhosts with an agent: 3 of 4\n", "\nwaits for: this\nwaits for: that\n", "\nhost7    61            -      2026-02-03T04:05:06Z                it is old\n",
		"\nctl2 (10.0.0.2:9100)  2026-02-03T04:05:06Z  1m30s                 yes      67        1h0m0s             -\n",
		"\nctl1 (10.0.0.1:9100)  2026-02-03T04:05:06Z  0s                    -        -         -                  -\n",
		"\nctl3                  -                     -                     -        66        1m0s               no route\n",
		"\nctl4                  -                     -                     -        0         -                  -\n",
		"\nhost8                 row says 48 VCPU\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for _, c := range []*cellgatev1.Cell{{Cell: "cell1"}, {Cell: "cell1", Gate: &cellgatev1.Gate{Reason: "it is gone"}}} {
		out.Reset()
		if showCell(&out, c); strings.Count(out.String(), "\n") != 2 {
			t.Errorf("%s", out.String())
		}
	}
}
