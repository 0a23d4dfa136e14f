package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/testaddr"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// driverTexts are phrases of gRPC's and the operating system's errors.
var driverTexts = []string{"desc =", "dial tcp", "rpc error", "transport", "connection refused", "EOF", "RST_STREAM", "context deadline"}

// listen gives a TCP port with a listener.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// safeBuffer is a log that several goroutines may write.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// However a cell fails to answer, no answer of the API has the text of a driver;
// the log has it, once.
func TestI7_SickCellsLeakNoDriverText(t *testing.T) {
	for _, tt := range []struct {
		name, says, logged string
		Cell               func(t *testing.T) (addr string)
	}{
		{"dead address", "could not be reached", "connection refused", func(t *testing.T) string { return testaddr.Dead(t) }},
		{"killed during a call", "closed the connection", "", func(t *testing.T) string {
			var kill func()
			addr, stop := serveCell(t, func(ctx context.Context, method string, _ any) error {
				if method == "ProposeBatch" {
					kill()
					<-ctx.Done()
				}
				return nil
			})
			kill = sync.OnceFunc(func() { go stop() })
			return addr
		}},
		// The cause that follows this text depends on whose timer fires first: the caller's, the batch's or the cell's.
		{"hung", "cell cell2 did not answer within 3s", "did not answer within 3s: ", func(t *testing.T) string {
			addr, _ := serveCell(t, func(ctx context.Context, _ string, _ any) error {
				<-ctx.Done()
				return ctx.Err()
			})
			return addr
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log safeBuffer
			addr := tt.Cell(t)
			w := startLogged(t, fleet(1, 2), func(c *Config) {
				c.ProposeBudget, c.ClaimBudget = 3*time.Second, 3*time.Second
				c.Breaker.Failures, c.Breaker.ProbeBudget = 2, 3*time.Second
				c.Cells = append(c.Cells, cellclient.CellConfig{Name: "cell2", UUID: testUUID(0xc, 2), Replicas: []string{addr}})
			}, slog.New(slog.NewTextHandler(&log, nil)))
			ctx := context.Background()
			var answers []string
			note := func(m proto.Message, err error) {
				answers = append(answers, fmt.Sprint(err), protojson.Format(m))
			}
			resp := w.choose(ask(1, 1))
			note(resp, nil)
			if r := resp.GetCells()[1]; !resp.GetPartial() || !strings.HasSuffix(r.GetReason(), tt.says) {
				t.Errorf("report %v, want %q", r, tt.says)
			}
			full := ask(2, 1)
			full.GetRequestSpec().Flavor.Vcpus = 99
			full.GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Cell: "cell2"}
			refused, err := w.scheduler.SelectDestinations(ctx, full)
			if e := mustFail(t, refused, err, fault.CellUnavailable); e.Metadata["cells"] != "cell2" {
				t.Errorf("metadata %v", e.Metadata)
			}
			note(refused, err)
			cells, err := w.cellsAPI.ListCells(ctx, &cellgatev1.ListCellsRequest{})
			note(cells, err)
			claim, err := w.claims.GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(1, 9)})
			note(claim, err)
			confirmed, err := w.claims.ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: testUUID(1, 9), ClaimId: "c"})
			if e := mustFail(t, confirmed, err, fault.CellUnavailable); e.Metadata["cells"] != "cell2" {
				t.Errorf("metadata %v", e.Metadata)
			}
			note(confirmed, err)
			for _, call := range [][]string{
				{"POST", "/v1/select_destinations", fmt.Sprintf(restBody, testUUID(1, 3))},
				{"GET", "/v1/cells", ""},
				{"GET", "/v1/hosts", ""},
				{"GET", "/v1/hosts/" + testUUID(1, 1), ""},
				{"GET", "/v1/claims", ""},
				{"GET", "/v1/claims/" + testUUID(1, 9), ""},
				{"DELETE", "/v1/claims/" + testUUID(1, 9) + "?claim_id=x", ""},
			} {
				answers = append(answers, w.send(call[0], call[1], call[2]).Body.String())
			}
			for _, text := range answers {
				for _, bad := range driverTexts {
					if strings.Contains(text, bad) {
						t.Errorf("%q in %s", bad, text)
					}
				}
			}
			if tt.logged != "" {
				lines := strings.Split(log.String(), "\n")
				n := 0
				for _, line := range lines {
					if strings.Contains(line, "breaker opens") && strings.Contains(line, tt.logged) {
						n++
					}
				}
				if n != 1 {
					t.Errorf("the cause was logged %d times:\n%s", n, log.String())
				}
			}
		})
	}
}

// The REST API over a gateway that is not there.
func TestRESTWithoutTheGatewayLeaksNoDriverText(t *testing.T) {
	conn, err := rpc.Dial(testaddr.Dead(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w := &world{t: t}
	g, err := New(Config{Cells: []cellclient.CellConfig{{Name: "cell1", Replicas: []string{"cell1"}}}}, Deps{Dial: lazy})
	if err != nil {
		t.Fatal(err)
	}
	defer g.cells.Close()
	if w.rest, err = g.HTTPHandler(conn); err != nil {
		t.Fatal(err)
	}
	rec := w.send("GET", "/v1/cells", "")
	if p := problemOf(t, rec); rec.Code != 503 || p.Message != "could not be reached" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// Programs read from an error's metadata which objects it is about, not from its text.
func TestErrorsNameThingsForPrograms(t *testing.T) {
	w := start(t, fleet(2, 1), nil)
	ctx := context.Background()
	s := w.choose(ask(1, 1)).GetDestinations()[0].GetSelected()
	e := w.refused(ask(1, 1), fault.AlreadyExists)
	if e.Metadata["claim_id"] != s.GetClaimId() || e.Metadata["cell"] != s.GetCell() || e.Metadata["consumer_uuid"] != testUUID(0x1, 1) {
		t.Errorf("ALREADY_EXISTS: %v", e.Metadata)
	}
	rec := w.send("POST", "/v1/select_destinations", fmt.Sprintf(restBody, testUUID(0x1, 1)))
	if p := problemOf(t, rec); p.Details[0]["metadata"].(map[string]any)["claim_id"] != s.GetClaimId() {
		t.Errorf("REST: %s", rec.Body)
	}
	if _, err := w.claims.ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: testUUID(0x1, 1), ClaimId: s.GetClaimId()}); err != nil {
		t.Fatal(err)
	}
	got, err := w.claims.ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: testUUID(0x1, 1), ClaimId: s.GetClaimId()})
	if e := mustFail(t, got, err, fault.ClaimExpired); e.Metadata["claim_id"] != s.GetClaimId() || e.Metadata["cell"] != s.GetCell() {
		t.Errorf("CLAIM_EXPIRED: %v", e.Metadata)
	}
	w.cells[0].hook(down, nil)
	w.cells[1].hook(down, nil)
	if e := w.refused(ask(1, 1), fault.CellUnavailable); e.Metadata["cells"] != "cell1,cell2" {
		t.Errorf("CELL_UNAVAILABLE: %v", e.Metadata)
	}
}

// serveCell serves a cell of one host on a port, until stop or the end of the test.
func serveCell(t *testing.T, hook func(ctx context.Context, method string, req any) error) (addr string, stop func()) {
	t.Helper()
	l := listen(t)
	c := newCell(2, testHost(2, 1))
	c.run(t)
	c.hook(hook, nil)
	s := c.real.Server
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Serve(l); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { s.Stop(); <-ended })
	return l.Addr().String(), s.Stop
}
