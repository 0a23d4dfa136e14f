package main

import (
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// explain ranks the hosts that pass. If none passes, it shows what to change in the request, and so
// does select. Both fit 100 columns.
func TestExplain_PassingAndRefusedRequest_RankedHostsAndSmallestChange(t *testing.T) {
	dev := launch(t, false, "dev", "--cells", "2", "--hosts", "20", "--data", t.TempDir(), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--cell-base-port", "0")
	api := dev.await(`gRPC   (\S+)`)[1]

	out, stderr, status := typed(t.Context(), "", "explain", "--addr", api, "--vcpus", "1", "--alternates", "3")
	if status != exitDone || !strings.Contains(out, "of 40 hosts pass") || strings.Count(out, "\n") < 5 || !regexp.MustCompile(`(?m)^3( tied)? +cell`).MatchString(out) {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
	fits(t, out)
	out, stderr, status = typed(t.Context(), "", "explain", "--addr", api, "--vcpus", "1", "--zone", "nowhere")
	if status != exitDone || !strings.Contains(out, "It would fit if you ask for another availability zone (") {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
	fits(t, out)
	for _, want := range []string{`all hosts +- +40\n`, `AvailabilityZoneFilter +40 +0\n`, `cell1 +NATIVE +\S+\n`, `cell2 +NATIVE +\S+\n`, `NEAREST HOST +CELL +ZONE +LACKS`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("explain does not show %s:\n%s", want, out)
		}
	}
	out, stderr, status = typed(t.Context(), "", "select", "--addr", api, "--vcpus", "100000")
	if status != exitRefused || !strings.Contains(out, "It would fit if you ask for at most ") || !strings.Contains(out, " VCPU (asked 100000, max_unit is ") {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
	fits(t, out)
	out, stderr, status = typed(t.Context(), "", "select", "--addr", api, "--vcpus", "4096", "--host", "cell1-r01-h001", "--extra-spec", "hw:cpu_policy=dedicated")
	if list := regexp.MustCompile(`do one of these, the smallest change first:\n(- .*\n(  .*\n)?){2}`); status != exitRefused || !list.MatchString(out) ||
		!strings.Contains(out, "\n- ask for at most 64 dedicated CPUs (asked 4096 PCPU") || !strings.Contains(out, "name no host, node or cell") {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
	fits(t, out)
	out, stderr, status = typed(t.Context(), "", "capacity", "--addr", api, "--vcpus", "2", "--trait", "HW_CPU_X86_AVX512F", "--zone", "az1")
	if status != exitDone || !strings.Contains(out, "the next one finds no host") {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
	fits(t, out)
	var m cellgatev1.ExplainDestinationsResponse
	cellgate(t, api, exitDone, &m, "explain", "--vcpus", "1")
	if len(m.GetRanked()) != 10 || len(m.GetRanked()[0].GetScores()) == 0 {
		t.Errorf("ranked %v", m.GetRanked())
	}

	// A decision is written after its answer.
	selected, stderr, status := typed(t.Context(), "", "select", "--addr", api, "--vcpus", "1", "--dry-run", "-o", "json")
	var answer cellgatev1.SelectDestinationsResponse
	if err := protojson.Unmarshal([]byte(selected), &answer); status != exitDone || err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, selected, stderr)
	}
	becomes(t, "the decision is not written", func() bool {
		out, _, status = typed(t.Context(), "", "explain", "--addr", api, "--decision", answer.GetDecisionId())
		return status == exitDone
	})
	refused, _, _ := typed(t.Context(), "", "select", "--addr", api, "--vcpus", "100000")
	_, id, _ := strings.Cut(strings.TrimSpace(refused), "\ndecision ")
	becomes(t, "the refusal is not written", func() bool {
		refused, _, status = typed(t.Context(), "", "explain", "--addr", api, "--decision", id)
		return status == exitDone
	})
	if !strings.Contains(refused, "\n0 of 40 hosts passed\n") {
		t.Errorf("from the record of a refusal:\n%s", refused)
	}
	host := answer.GetDestinations()[0].GetSelected().GetServiceHost()
	if line := strings.Join(strings.Fields(out), " "); !strings.HasPrefix(out, "From the record of decision "+answer.GetDecisionId()) ||
		!strings.Contains(line, "1 chosen "+host) || !strings.Contains(line, "RAMWeigher") || !strings.Contains(line, "FILTER REJECTED LEFT all hosts - 40") {
		t.Errorf("from the record:\n%s", out)
	}
	if _, stderr, status = typed(t.Context(), "", "explain", "--addr", api, "--decision", "cell1.x", "--vcpus", "1"); status != exitUsage || !strings.Contains(stderr, "--vcpus") {
		t.Errorf("status %d: %s", status, stderr)
	}
	dev.stop()
}

func fits(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 100 && !strings.HasPrefix(line, "Operators: ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
