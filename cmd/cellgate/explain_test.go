package main

import (
	"strings"
	"testing"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// explain ranks hosts that pass, and says of a request that no host passes what to change; select says the same
// when it is refused. Both fit 100 columns.
func TestExplain_PassingAndRefusedRequest_RankedHostsAndSmallestChange(t *testing.T) {
	dev := launch(t, false, "dev", "--cells", "2", "--hosts", "20", "--data", t.TempDir(), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--cell-base-port", "0")
	api := dev.await(`gRPC   (\S+)`)[1]

	out, stderr, status := typed(t.Context(), "", "explain", "--addr", api, "--vcpus", "1", "--alternates", "3")
	if status != exitDone || !strings.Contains(out, "of 40 hosts pass") || strings.Count(out, "\n") < 5 || !strings.Contains(out, "3     cell") {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
	fits(t, out)
	out, stderr, status = typed(t.Context(), "", "explain", "--addr", api, "--vcpus", "1", "--zone", "nowhere")
	if status != exitDone || !strings.Contains(out, "It would fit if you ask for another availability zone (") {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
	fits(t, out)
	out, stderr, status = typed(t.Context(), "", "select", "--addr", api, "--vcpus", "100000")
	if status != exitRefused || !strings.Contains(out, "It would fit if you ask for at most ") || !strings.Contains(out, " VCPU (asked 100000)") {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
	fits(t, out)
	var m cellgatev1.ExplainDestinationsResponse
	cellgate(t, api, exitDone, &m, "explain", "--vcpus", "1")
	if len(m.GetRanked()) != 10 || len(m.GetRanked()[0].GetScores()) == 0 {
		t.Errorf("ranked %v", m.GetRanked())
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
