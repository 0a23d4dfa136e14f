package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	"cellgate/internal/rpc"
	"cellgate/internal/security"
	"cellgate/internal/security/testca"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// watch reads a process's log on and hands out the lines that match.
func (p *process) watch(pattern string) <-chan string {
	re, found := regexp.MustCompile(pattern), make(chan string, 1000)
	go func() {
		defer close(found)
		for {
			line, ok := p.lines.next(context.Background())
			if !ok {
				return
			}
			if re.MatchString(line) {
				found <- line
			}
		}
	}()
	return found
}

// Every hop uses TLS and proves who calls: the gateway and the agents by certificates, the callers
// of the gateway by tokens. While calls run, all certificates are replaced by those of another CA,
// and the token by another one. No call fails.
func TestCertificatesAndTokensAreReplacedWithoutAFailedCall(t *testing.T) {
	s := newSecured(t)
	s.ca.Write(s.dir, "gateway", testca.Leaf{URIs: []string{"cellgate://gateway/gw1"}})
	s.ca.Write(s.dir, "agent", testca.Leaf{URIs: []string{"cellgate://agent/cell1-*"}})
	const first, second = "cellgate_token-one", "cellgate_token-two"
	known := func(secrets ...string) {
		var text bytes.Buffer
		for i, secret := range secrets {
			fmt.Fprintf(&text, "- {sha256: %x, role: conductor, name: c%d}\n", sha256.Sum256([]byte(secret)), i)
		}
		testca.Put(s.dir, "public-tokens.yaml", text.Bytes())
	}
	known(first)
	tokenFile := testca.Put(s.dir, "token", []byte(first))

	server := []string{"--tls-cert", s.path("server.pem"), "--tls-key", s.path("server-key.pem")}
	cell := launch(t, true, append(append(cellArgs(t.TempDir()), "--tls-client-ca", s.caFile), server...)...)
	s.cell = cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
	cell.await(`msg="cell is ready"`)
	cellReads := cell.watch("was read again")
	fleet := launch(t, true, "agent", "--cell", "cell1", "--hosts", "20", "--replica", s.cell,
		"--tls-ca", s.caFile, "--tls-cert", s.path("agent.pem"), "--tls-key", s.path("agent-key.pem"))
	fleet.await(`msg="every host is registered"`)
	fleetReads := fleet.watch("was read again|cannot report|lost their cell")
	gw := launch(t, true, append([]string{
		"gateway", "--cell", "cell1=" + s.cell, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--propose-budget", "20s", "--claim-budget", "20s",
		"--cell-tls-ca", s.caFile, "--cell-tls-cert", s.path("gateway.pem"), "--cell-tls-key", s.path("gateway-key.pem"),
		"--tls-tokens", s.path("public-tokens.yaml"),
	}, server...)...)
	m := gw.await(`msg="gateway starts".* grpc=(\S+) http=(\S+)`)
	s.grpc, s.http = m[1], m[2]
	gwReads := gw.watch("was read again")

	caller, err := security.NewClient(security.ClientConfig{CA: s.caFile, TokenFile: tokenFile}, silent)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := caller.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	var calls [3]atomic.Int64
	// Each loop makes calls in one way. The third connects anew for each call.
	loop := func(n int, once func() error) {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := once(); err != nil && ctx.Err() == nil {
					t.Errorf("call %d of way %d: %v", calls[n].Load(), n, err)
					return
				}
				calls[n].Add(1)
			}
		})
	}
	conn, err := rpc.Dial(s.grpc, caller.Options()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	loop(0, func() error { return selectBy(ctx, conn) })
	web := &http.Client{Transport: caller.Transport()}
	defer web.CloseIdleConnections()
	loop(1, func() error { return selectByREST(ctx, web, s.http) })
	loop(2, func() error {
		conn, err := rpc.Dial(s.grpc, caller.Options()...)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		return selectBy(ctx, conn)
	})

	// read waits until each process has reread so many files.
	read := func(step string, ofCell, ofFleet, ofGateway int) {
		t.Helper()
		for name, w := range map[string]struct {
			lines <-chan string
			n     int
		}{"cell": {cellReads, ofCell}, "agents": {fleetReads, ofFleet}, "gateway": {gwReads, ofGateway}} {
			for range w.n {
				select {
				case line := <-w.lines:
					if !strings.Contains(line, "was read again") {
						t.Errorf("%s: the %s say %s", step, name, line)
					}
				case <-time.After(testwait.Limit):
					t.Fatalf("%s: the %s did not read its files again", step, name)
				}
			}
		}
	}
	settle := func(step string) {
		t.Helper()
		for n := range calls {
			for until := calls[n].Load() + 3; calls[n].Load() < until && !t.Failed(); {
				if err := selectBy(ctx, conn); err != nil {
					t.Fatalf("%s: %v", step, err)
				}
			}
		}
	}
	settle("before")
	next := testca.New("next")
	testca.Put(s.dir, "ca.pem", append(append([]byte{}, s.ca.PEM...), next.PEM...))
	known(first, second)
	read("both CAs and both tokens", 1, 1, 2)
	settle("both CAs and both tokens")
	testca.Put(s.dir, "token", []byte(second))
	next.Write(s.dir, "gateway", testca.Leaf{URIs: []string{"cellgate://gateway/gw1"}})
	next.Write(s.dir, "agent", testca.Leaf{URIs: []string{"cellgate://agent/cell1-*"}})
	next.Write(s.dir, "server", testca.Leaf{Server: true})
	read("certificates of the next CA", 1, 1, 2)
	settle("certificates of the next CA")
	cancel()
	all.Wait()
	t.Logf("calls: %d by gRPC, %d by REST, %d by connections of their own", calls[0].Load(), calls[1].Load(), calls[2].Load())

	// The new files are in use: a client with only the new CA and the new token gets through.
	testca.Put(s.dir, "next-ca.pem", next.PEM)
	fresh, err := security.NewClient(security.ClientConfig{CA: s.path("next-ca.pem"), TokenFile: tokenFile}, silent)
	if err != nil {
		t.Fatal(err)
	}
	if err := selectBy(t.Context(), s.dial(t, s.grpc, fresh)); err != nil {
		t.Errorf("with the next CA: %v", err)
	}
}

func selectBy(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := cellgatev1.NewSchedulerClient(conn).SelectDestinations(ctx, &cellgatev1.SelectDestinationsRequest{
		InstanceUuids: []string{uuid.NewString()},
		Spec:          &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{Flavor: &cellgatev1.Flavor{Vcpus: 1, MemoryMb: 512}}},
	})
	return err
}

func selectByREST(ctx context.Context, c *http.Client, addr string) error {
	body := strings.NewReader(`{"instance_uuids": ["` + uuid.NewString() + `"], "request_spec": {"flavor": {"vcpus": 1, "memory_mb": 512}}}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+addr+"/v1/select_destinations", body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d %s", resp.StatusCode, text)
	}
	return err
}
