package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/security"
	"cellgate/internal/security/testca"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A frame shows cells, rates and refusals within 100 columns, and says so if the gateway does not
// answer.
func TestTop_OneFrame_ShowsCellsRatesAndRefusals(t *testing.T) {
	dev := launch(t, false, "dev", "--cells", "2", "--hosts", "20", "--data", t.TempDir(), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--cell-base-port", "0")
	api := dev.await(`gRPC   (\S+)`)[1]
	typed(t.Context(), "", "select", "--addr", api, "--vcpus", "1")
	typed(t.Context(), "", "select", "--addr", api, "--vcpus", "100000")
	top := func() (string, int) {
		out, _, status := typed(t.Context(), "", "top", "--addr", api, "--once", "--interval", "100ms")
		return out, status
	}
	var out string
	becomes(t, "top shows no refusal", func() bool {
		out, _ = top()
		return strings.Contains(out, "NO_VALID_HOST: No valid host")
	})
	fits(t, out)
	for _, want := range []string{"2 of 2 cells available", "selections 0.0/s", "cell1  available  20/20", "cell2  available  20/20", "1/1", "LATEST REFUSALS", "refused 0.0/s"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	t.Logf("\n%s", out)
	dev.stop()
	if out, status := top(); status != exitUnreachable || !strings.Contains(out, "The gateway does not answer") || !strings.Contains(out, "no rates: ") {
		t.Errorf("status %d\n%s", status, out)
	}
	if _, stderr, status := typed(t.Context(), "", "top", "--interval", "1ms"); status != exitUsage || !strings.Contains(stderr, "--interval") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestTop_RefusalOfAnotherDay_HasItsDate(t *testing.T) {
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	top := topView{client: &client{}}
	for _, ago := range []time.Duration{time.Hour, 24 * time.Hour} {
		top.refusals = append(top.refusals, &cellgatev1.Decision{DecidedAt: timestamppb.New(at.Add(-ago)), Refusal: "CONTENDED"})
	}
	p := page{width: topWidth}
	top.show(&p, at)
	if out := p.String(); !strings.Contains(out, "\n08:00:00Z  CONTENDED") || !strings.Contains(out, "\n2026-03-01 09:00:00Z  CONTENDED") {
		t.Errorf("\n%s", out)
	}
}

// The metrics of a gateway with TLS are read with the command's CA and token.
func TestTop_GatewayWithTLS_ShowsRates(t *testing.T) {
	s := startSecured(t)
	token := testca.Put(t.TempDir(), "token", []byte(s.tokens[security.Operator]))
	out, stderr, status := typed(t.Context(), "", "top", "--addr", s.grpc, "--ca", s.caFile, "--token-file", token, "--once", "--interval", "100ms")
	if status != exitDone || !strings.Contains(out, "selections 0.0/s") || strings.Contains(out, "no rates") {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
}

func TestMetricsAt_HostOfAnotherMachine_IsThatOfTheAddress(t *testing.T) {
	for _, c := range []struct{ web, addr, want string }{
		{"http://127.0.0.1:8080", "127.0.0.1:9090", "http://127.0.0.1:8080/metrics"},
		{"http://[::]:8080", "gw1.example:9090", "http://gw1.example:8080/metrics"},
		{"http://0.0.0.0:8080", "[2001:db8::1]:9090", "http://[2001:db8::1]:8080/metrics"},
		{"https://192.0.2.7:8443", "gw1.example:9090", "https://192.0.2.7:8443/metrics"},
	} {
		if got := metricsAt(c.web, c.addr); got != c.want {
			t.Errorf("%s at %s: %s, want %s", c.web, c.addr, got, c.want)
		}
	}
}
