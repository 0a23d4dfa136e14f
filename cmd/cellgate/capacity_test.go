package main

import (
	"strings"
	"testing"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// capacity counts what select can then place, and what would fit with other ratios and hosts.
func TestCapacity_FilledFleet_CountsWhatFits(t *testing.T) {
	dev := launch(t, false, "dev", "--cells", "2", "--hosts", "3", "--data", t.TempDir(), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--cell-base-port", "0")
	api := dev.await(`gRPC   (\S+)`)[1]
	shape := []string{"--vcpus", "16", "--memory-mb", "32768"}
	var m cellgatev1.EstimateCapacityResponse
	cellgate(t, api, exitDone, &m, append([]string{"capacity"}, shape...)...)
	fit := m.GetShapes()[0].GetInstances()
	if fit < 1 || len(m.GetCells()) != 2 {
		t.Fatalf("got %v", &m)
	}
	for range fit {
		var placed cellgatev1.SelectDestinationsResponse
		cellgate(t, api, exitDone, &placed, append([]string{"select"}, shape...)...)
	}
	out, stderr, status := typed(t.Context(), "", append([]string{"select", "--addr", api}, shape...)...)
	if status != exitRefused {
		t.Errorf("one more than %d fits: %s%s", fit, out, stderr)
	}
	out, stderr, status = typed(t.Context(), "", append([]string{"capacity", "--addr", api}, shape...)...)
	if status != exitDone || !strings.Contains(out, "instances: 0 fit; the next one finds no host: ") {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
	var hosts cellgatev1.ListHostsResponse
	cellgate(t, api, exitDone, &hosts, "hosts")
	cellgate(t, api, exitDone, &m, append([]string{"capacity", "--add", hosts.GetHosts()[0].GetHostUuid() + "=2"}, shape...)...)
	if m.GetShapes()[0].GetInstances() < 2 {
		t.Errorf("with two hosts more: %v", &m)
	}
	_, stderr, status = typed(t.Context(), "", append([]string{"capacity", "--addr", api, "--ratio", "VCPU=x"}, shape...)...)
	if status != exitUsage || !strings.Contains(stderr, "--ratio VCPU=x: is no number") {
		t.Errorf("status %d: %s", status, stderr)
	}
	dev.stop()
}
