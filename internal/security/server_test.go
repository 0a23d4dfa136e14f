package security

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/security/testca"
	"cellgate/internal/testwait"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// buffer is a log that several goroutines write to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// rig is a server with TLS on a loopback port and on a connection in memory.
type rig struct {
	t      *testing.T
	dir    string
	ca     *testca.CA
	caFile string
	log    *buffer
	s      *Server
	addr   string
	memory *bufconn.Listener
	// seen is the caller of the last call that was served.
	seen *Identity

	mu sync.Mutex
	// refused counts refusals by method and kind.
	refused map[string]uint64
}

type rigCells struct {
	cellgatev1.UnimplementedCellsServer
	r *rig
}

func (c rigCells) ListCells(ctx context.Context, _ *cellgatev1.ListCellsRequest) (*cellgatev1.ListCellsResponse, error) {
	c.r.seen = FromContext(ctx)
	return &cellgatev1.ListCellsResponse{}, nil
}

// rigReports answers every message with an Accepted.
type rigReports struct {
	agentv1.UnimplementedHostReportsServer
}

func (rigReports) Report(stream grpc.BidiStreamingServer[agentv1.ReportRequest, agentv1.ReportResponse]) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		if err := stream.Send(&agentv1.ReportResponse{}); err != nil {
			return err
		}
	}
}

func newRig(t *testing.T, change func(r *rig, c *ServerConfig)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), ca: testca.New("ours"), log: &buffer{}, refused: map[string]uint64{}}
	r.caFile = testca.Put(r.dir, "ca.pem", r.ca.PEM)
	cert, key := r.ca.Write(r.dir, "server", testca.Leaf{Server: true})
	c := ServerConfig{Cert: cert, Key: key, ClientCA: testca.Put(r.dir, "callers.pem", r.ca.PEM)}
	c.OnRefused = func(method string, kind fault.Kind) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused[method+" "+string(kind)]++
	}
	if change != nil {
		change(r, &c)
	}
	var err error
	if r.s, err = NewServer(c, slog.New(slog.NewTextHandler(r.log, nil))); err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(slog.New(slog.DiscardHandler), r.s.Options()...)
	cellgatev1.RegisterCellsServer(server, rigCells{r: r})
	agentv1.RegisterHostReportsServer(server, rigReports{})
	rpc.ServeHealth(server).Set(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr, r.memory = l.Addr().String(), bufconn.Listen(1<<16)
	var served sync.WaitGroup
	for _, l := range []net.Listener{l, Memory(r.memory)} {
		served.Go(func() {
			if err := server.Serve(l); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { server.Stop(); served.Wait() })
	return r
}

// conn connects with a client's files.
func (r *rig) conn(c ClientConfig) *grpc.ClientConn {
	r.t.Helper()
	if c.CA == "" {
		c.CA = r.caFile
	}
	client, err := NewClient(c, slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	conn, err := rpc.Dial(r.addr, client.Options()...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (r *rig) certificate(name string, l testca.Leaf) ClientConfig {
	cert, key := r.ca.Write(r.dir, name, l)
	return ClientConfig{Cert: cert, Key: key}
}

func list(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := cellgatev1.NewCellsClient(conn).ListCells(ctx, &cellgatev1.ListCellsRequest{})
	return err
}

// must checks that a call ends with a kind of error, or "" for success.
func (r *rig) must(what string, err error, want fault.Kind) {
	r.t.Helper()
	if fault.KindOf(err) != want {
		r.t.Errorf("%s: %v, want %q", what, err, want)
	}
}

func line(secret string, rest string) []byte {
	return fmt.Appendf(nil, "- {sha256: %x, %s}\n", sha256.Sum256([]byte(secret)), rest)
}

func TestACertificateIsDemandedUnlessOptional(t *testing.T) {
	r := newRig(t, nil)
	r.must("no certificate", list(t.Context(), r.conn(ClientConfig{})), fault.CellUnavailable)
	r.must("a reader's", list(t.Context(), r.conn(r.certificate("r", testca.Leaf{URIs: []string{"cellgate://reader/x"}}))), "")
	if r.seen == nil || r.seen.Role != Reader || r.seen.Name != "x" {
		t.Errorf("the handler saw %+v", r.seen)
	}
	for name, uris := range map[string][]string{
		"none": nil, "several": {"cellgate://reader/x", "cellgate://operator/x"}, "twice": {"cellgate://reader/x", "cellgate://reader/y"},
		"unknown": {"cellgate://root/x"}, "query": {"cellgate://reader/x?y"}, "every host": {"cellgate://agent/*"}, "no host": {"cellgate://agent"},
		"opaque": {"cellgate:reader"},
	} {
		r.must(name, list(t.Context(), r.conn(r.certificate("c", testca.Leaf{URIs: uris}))), fault.Unauthenticated)
	}
	// A server's certificate does not make a caller.
	r.must("a server's", list(t.Context(), r.conn(r.certificate("s", testca.Leaf{Server: true, URIs: []string{"cellgate://reader/x"}}))), fault.CellUnavailable)
}

func TestATokenCountsBeforeACertificate(t *testing.T) {
	const secret = "cellgate_one"
	r := newRig(t, func(r *rig, c *ServerConfig) {
		c.Tokens = testca.Put(r.dir, "tokens", line(secret, "role: conductor, name: c"))
		c.ClientCertOptional = true
	})
	token := testca.Put(r.dir, "token", []byte(secret+"\n"))
	wrong := testca.Put(r.dir, "wrong", []byte("cellgate_other"))
	reader := r.certificate("r", testca.Leaf{URIs: []string{"cellgate://reader/x"}})
	both, spoilt := reader, reader
	both.TokenFile, spoilt.TokenFile = token, wrong
	r.must("certificate", list(t.Context(), r.conn(reader)), "")
	r.must("a conductor's token", list(t.Context(), r.conn(ClientConfig{TokenFile: token})), fault.PermissionDenied)
	r.must("a conductor's token with a reader's certificate", list(t.Context(), r.conn(both)), fault.PermissionDenied)
	r.must("a wrong token with a reader's certificate", list(t.Context(), r.conn(spoilt)), fault.Unauthenticated)
	conn := r.conn(ClientConfig{})
	for _, header := range []string{"", "Bearer", "Bearer ", secret, "Basic " + secret, "Bearer " + secret[:10], "Bearer " + secret + "x"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", header)
		r.must("header "+header, list(ctx, conn), fault.Unauthenticated)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+secret, "authorization", "Bearer "+secret)
	r.must("two headers", list(ctx, conn), fault.Unauthenticated)
	ctx = metadata.AppendToOutgoingContext(t.Context(), "authorization", "bearer  "+secret)
	r.must("another spelling", list(ctx, conn), fault.PermissionDenied)
	if strings.Contains(r.log.String(), secret) {
		t.Errorf("the log has the token:\n%s", r.log)
	}
}

// The header that names a REST caller counts only on the connection in memory.
func TestTheCallerOfRESTCannotBeForged(t *testing.T) {
	r := newRig(t, func(r *rig, c *ServerConfig) {
		c.Tokens, c.ClientCertOptional = testca.Put(r.dir, "tokens", nil), true
	})
	reader := r.certificate("r", testca.Leaf{URIs: []string{"cellgate://reader/x"}})
	pair, err := tls.LoadX509KeyPair(reader.Cert, reader.Key)
	if err != nil {
		t.Fatal(err)
	}
	forged := metadata.AppendToOutgoingContext(t.Context(), chainHeader, string(pair.Certificate[0]))
	r.must("over the network", list(forged, r.conn(ClientConfig{})), fault.Unauthenticated)

	inside, err := rpc.Dial("passthrough:///memory", Forward(), grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return r.memory.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inside.Close() })
	// As grpc-gateway sends on a header Grpc-Metadata-….
	r.must("by a header of REST", list(forged, inside), fault.Unauthenticated)

	web := httptest.NewUnstartedServer(nil)
	web.Config.Handler = r.s.HTTP(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		ctx := metadata.AppendToOutgoingContext(q.Context(), chainHeader, "forged")
		if err := list(ctx, inside); err != nil {
			w.WriteHeader(rpc.HTTPStatus(fault.KindOf(err)))
		}
	}), func(w http.ResponseWriter, err error) { w.WriteHeader(rpc.HTTPStatus(fault.KindOf(err))) })
	web.Listener = r.s.Listener(web.Listener)
	web.Start()
	defer web.Close()
	get := func(c ClientConfig, path string) int {
		c.CA = r.caFile
		client, err := NewClient(c, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		h := &http.Client{Transport: client.Transport()}
		defer h.CloseIdleConnections()
		resp, err := h.Get("https://" + web.Listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	agent := r.certificate("a", testca.Leaf{URIs: []string{"cellgate://agent/h"}})
	for _, c := range []struct {
		who  ClientConfig
		path string
		want int
	}{
		{reader, "/v1/cells", 200},
		{agent, "/v1/cells", 403},
		{ClientConfig{}, "/v1/cells", 401},
		{reader, "/metrics", 200},
		{agent, "/metrics", 403},
		{ClientConfig{}, "/metrics", 401},
		{ClientConfig{}, "/elsewhere", 401},
	} {
		if got := get(c.who, c.path); got != c.want {
			t.Errorf("%s by %v: %d, want %d", c.path, c.who, got, c.want)
		}
	}
}

// New files apply to open connections. Broken files change nothing and are logged once.
func TestFilesAreReadAgain(t *testing.T) {
	const first, second = "cellgate_first", "cellgate_second"
	r := newRig(t, func(r *rig, c *ServerConfig) {
		c.Tokens, c.ClientCertOptional = testca.Put(r.dir, "tokens", line(first, "role: reader, name: a")), true
	})
	poll := func() {
		for _, p := range r.s.files {
			p.poll(r.s.log)
		}
	}
	byToken := r.conn(ClientConfig{TokenFile: testca.Put(r.dir, "token", []byte(first))})
	byCertificate := r.conn(r.certificate("r", testca.Leaf{URIs: []string{"cellgate://reader/x"}}))
	r.must("token", list(t.Context(), byToken), "")
	r.must("certificate", list(t.Context(), byCertificate), "")

	testca.Put(r.dir, "tokens", []byte("nonsense"))
	testca.Put(r.dir, "callers.pem", []byte("nonsense"))
	testca.Put(r.dir, "server.pem", []byte("nonsense"))
	poll()
	poll()
	if n := strings.Count(r.log.String(), "level=ERROR"); n != 3 {
		t.Errorf("%d errors, want one a file:\n%s", n, r.log)
	}
	r.must("token while the files are broken", list(t.Context(), byToken), "")
	r.must("new connection while the files are broken", list(t.Context(), r.conn(r.certificate("r2", testca.Leaf{URIs: []string{"cellgate://reader/x"}}))), "")

	ours := r.ca
	r.ca = testca.New("new")
	r.caFile = testca.Put(r.dir, "new-ca.pem", r.ca.PEM)
	testca.Put(r.dir, "callers.pem", r.ca.PEM)
	testca.Put(r.dir, "tokens", line(second, "role: reader, name: b"))
	r.ca.Write(r.dir, "server", testca.Leaf{Server: true})
	poll()
	if n := strings.Count(r.log.String(), "was read again"); n != 3 {
		t.Errorf("%d files read again, want 3:\n%s", n, r.log)
	}
	r.must("token taken out", list(t.Context(), byToken), fault.Unauthenticated)
	r.must("certificate of a CA taken out", list(t.Context(), byCertificate), fault.Unauthenticated)
	r.must("new token over the new certificate", list(t.Context(), r.conn(ClientConfig{TokenFile: testca.Put(r.dir, "token2", []byte(second))})), "")
	old := testca.Put(r.dir, "old-ca.pem", ours.PEM)
	r.must("a client that knows the old CA only", list(t.Context(), r.conn(ClientConfig{CA: old})), fault.CellUnavailable)
}

// A caller whose certificate was refused uses the replacement without a restart, because its
// connection ends soon after the refusal.
func TestARefusedCertificate_Replaced_IsShownSoon(t *testing.T) {
	r := newRig(t, nil)
	files := r.certificate("a", testca.Leaf{URIs: []string{"cellgate://operator/h1"}})
	files.CA = r.caFile
	client, err := NewClient(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := rpc.Dial(r.addr, client.Options()...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	report := func() error {
		s, err := agentv1.NewHostReportsClient(conn).Report(t.Context())
		if err != nil {
			return err
		}
		if err := s.Send(&agentv1.ReportRequest{}); err != nil {
			_, err = s.Recv()
			return err
		}
		_, err = s.Recv()
		return err
	}
	r.must("an operator's certificate", report(), fault.PermissionDenied)
	r.certificate("a", testca.Leaf{URIs: []string{"cellgate://agent/h1"}})
	client.pair.poll(slog.New(slog.DiscardHandler))
	for until := time.Now().Add(testwait.Limit); ; {
		err := report()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("with the agent's certificate: %v", err)
		}
		// The connection ends some time after the refusal.
		conn.WaitForStateChange(t.Context(), connectivity.Ready)
	}
}

// A stream ends when the credential that opened it does.
func TestAStreamEndsWithItsProof(t *testing.T) {
	const secret = "cellgate_agent"
	r := newRig(t, func(r *rig, c *ServerConfig) {
		c.ClientCA, c.Tokens = "", testca.Put(r.dir, "tokens", line(secret, "role: agent, name: a, hosts: [h1]"))
	})
	conn := r.conn(ClientConfig{TokenFile: testca.Put(r.dir, "token", []byte(secret))})
	say := func(s agentv1.HostReports_ReportClient) error {
		if err := s.Send(&agentv1.ReportRequest{}); err != nil {
			t.Fatal(err)
		}
		_, err := s.Recv()
		return err
	}
	open := func() agentv1.HostReports_ReportClient {
		s, err := agentv1.NewHostReportsClient(conn).Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.must("the first message", say(s), "")
		return s
	}
	s := open()
	testca.Put(r.dir, "tokens", line(secret, "role: agent, name: a, hosts: [h2]"))
	r.s.tokens.poll(r.s.log)
	r.must("another host's now", say(s), fault.Unauthenticated)
	s = open()
	testca.Put(r.dir, "tokens", nil)
	r.s.tokens.poll(r.s.log)
	r.must("taken out", say(s), fault.Unauthenticated)
	testca.Put(r.dir, "tokens", line(secret, "role: agent, name: a, hosts: [h2], expires: 2100-01-01T00:00:00Z"))
	r.s.tokens.poll(r.s.log)
	s = open()
	testca.Put(r.dir, "tokens", line(secret, "role: agent, name: a, hosts: [h2], expires: 2001-01-01T00:00:00Z"))
	r.s.tokens.poll(r.s.log)
	if err := say(s); fault.KindOf(err) != fault.Unauthenticated || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("expired: %v", err)
	}
}

func TestRefusalsAreCountedAndLoggedNowAndThen(t *testing.T) {
	r := newRig(t, func(r *rig, c *ServerConfig) {
		c.ClientCA, c.Tokens = "", testca.Put(r.dir, "tokens", nil)
	})
	conn := r.conn(ClientConfig{})
	for range 50 {
		r.must("none", list(t.Context(), conn), fault.Unauthenticated)
	}
	for i := range 20 {
		err := conn.Invoke(t.Context(), fmt.Sprintf("/made.up/M%d", i), &cellgatev1.ListCellsRequest{}, &cellgatev1.ListCellsResponse{})
		if c := status.Code(rpc.ToStatus(err).Err()); c != codes.Unimplemented && c != codes.Unauthenticated && c != codes.Unavailable {
			t.Errorf("a method there is not: %v", err)
		}
	}
	if n := strings.Count(r.log.String(), "a caller was refused"); n < 1 || n > 3 {
		t.Errorf("%d lines in the log:\n%s", n, r.log)
	}
	counts := r.counts()
	if counts["cellgate.v1.Cells/ListCells UNAUTHENTICATED"] != 50 || len(counts) > 2 {
		t.Errorf("counts %v", counts)
	}
}

// counts are the refusals so far, by method and kind.
func (r *rig) counts() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.refused)
}

// A refused caller is logged with its address, over REST too, and with its name if that is known,
// but never with the secret.
func TestARefusedCallerIsNamed(t *testing.T) {
	secret := "s3cret-of-alice"
	r := newRig(t, func(r *rig, c *ServerConfig) {
		c.ClientCA, c.Tokens = "", testca.Put(r.dir, "tokens", line(secret, "role: conductor, name: alice"))
	})
	inside, err := rpc.Dial("passthrough:///memory", Forward(), grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return r.memory.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inside.Close() })
	refuse := func(w http.ResponseWriter, err error) { w.WriteHeader(rpc.HTTPStatus(fault.KindOf(err))) }
	h := r.s.HTTP(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		ctx := metadata.AppendToOutgoingContext(q.Context(), "authorization", q.Header.Get("Authorization"), addressHeader, "forged")
		if err := list(ctx, inside); err != nil {
			refuse(w, err)
		}
	}), refuse)
	req := httptest.NewRequest(http.MethodGet, "/v1/cells", nil)
	req.RemoteAddr = "192.0.2.7:4711"
	req.Header.Set("Authorization", "Bearer "+secret)
	got := httptest.NewRecorder()
	h.ServeHTTP(got, req)
	log := r.log.String()
	if got.Code != http.StatusForbidden || !strings.Contains(log, "method=cellgate.v1.Cells/ListCells from=192.0.2.7:4711 role=conductor name=alice") {
		t.Errorf("%d\n%s", got.Code, log)
	}
	if strings.Contains(log, secret) || strings.Contains(log, "forged") {
		t.Errorf("the log has what it must not:\n%s", log)
	}
}

// If callers need no credentials, a browser's page could call. Such requests carry the host name of
// the page, so that only this machine's names are served.
func TestOnlyThisMachinesNamesAreServedNear(t *testing.T) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	refuse := func(w http.ResponseWriter, err error) { w.WriteHeader(rpc.HTTPStatus(fault.KindOf(err))) }
	refused := 0
	open, err := NewServer(ServerConfig{OnRefused: func(string, fault.Kind) { refused++ }}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	known, err := NewServer(ServerConfig{Tokens: testca.Put(dir, "tokens", nil)}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	near, far := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, &net.TCPAddr{IP: net.IPv4zero, Port: 1}
	for _, c := range []struct {
		s    *Server
		at   net.Addr
		host string
		want int
	}{
		{open, near, "localhost:8080", 200},
		{open, near, "LocalHost", 200},
		{open, near, "127.0.0.1:8080", 200},
		{open, near, "[::1]:8080", 200},
		{open, near, "::1", 200},
		{open, near, "", 200},
		{open, near, "evil.example", 403},
		{open, near, "evil.example:8080", 403},
		{open, near, "127.0.0.1.evil.example:8080", 403},
		{open, near, "192.0.2.1:8080", 403},
		{open, far, "gateway-a:8080", 200},
		{known, near, "gw.example.org", 200},
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/cells", nil)
		r.Host = c.host
		got := httptest.NewRecorder()
		c.s.Near(ok, c.at, refuse).ServeHTTP(got, r)
		if got.Code != c.want {
			t.Errorf("at %v, host %q: %d, want %d", c.at, c.host, got.Code, c.want)
		}
	}
	if refused != 4 {
		t.Errorf("%d are counted", refused)
	}
}

// The earliest expiry counts, of the certificates shown and of the known CAs.
func TestTheFirstEndOfAFileCounts(t *testing.T) {
	dir, ca, now := t.TempDir(), testca.New("ours"), time.Now()
	end := now.Add(time.Hour).Truncate(time.Second)
	cert, key := ca.Write(dir, "server", testca.Leaf{Server: true, To: end})
	caFile := testca.Put(dir, "ca.pem", ca.PEM)
	s, err := NewServer(ServerConfig{Cert: cert, Key: key, ClientCA: caFile}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if own, callers := s.Ends(); !own.Equal(end) || !callers.After(end) {
		t.Errorf("a server's end at %v and %v, want %v", own, callers, end)
	}
	ca.Write(dir, "server", testca.Leaf{Server: true, To: end.Add(time.Hour)})
	s.pair.poll(s.log)
	if own, _ := s.Ends(); !own.Equal(end.Add(time.Hour)) {
		t.Errorf("read again, it ends at %v", own)
	}
	c, err := NewClient(ClientConfig{CA: caFile}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if own, servers := c.Ends(); !own.IsZero() || servers.IsZero() {
		t.Errorf("a client's end at %v and %v", own, servers)
	}
}

func TestFilesOthersMayOpenAreRefused(t *testing.T) {
	dir, ca := t.TempDir(), testca.New("ours")
	cert, key := ca.Write(dir, "server", testca.Leaf{Server: true})
	known := testca.Put(dir, "tokens", nil)
	for path, says := range map[string]string{key: "every user of this machine may open (mode 0604)", known: "every user of this machine may open", cert: ""} {
		if err := os.Chmod(path, 0o604); err != nil {
			t.Fatal(err)
		}
		_, err := NewServer(ServerConfig{Cert: cert, Key: key, Tokens: known}, slog.New(slog.DiscardHandler))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), path+" is a secret") {
			t.Errorf("%s: %v", path, err)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(cert, 0o646); err != nil {
		t.Fatal(err)
	}
	if _, err := NewServer(ServerConfig{Cert: cert, Key: key}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "may be written") {
		t.Errorf("a certificate that others may write: %v", err)
	}
	if _, err := NewClient(ClientConfig{TokenFile: dir}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}

func TestCheckFindsEverything(t *testing.T) {
	dir, ca, now := t.TempDir(), testca.New("ours"), time.Now()
	caFile := testca.Put(dir, "ca.pem", ca.PEM)
	cert, key := ca.Write(dir, "server", testca.Leaf{Server: true, To: now.Add(time.Hour)})
	caller, callerKey := ca.Write(dir, "caller", testca.Leaf{To: now.Add(-time.Minute)})
	known := testca.Put(dir, "tokens", append(line("a", "role: reader, name: late, expires: 2001-01-01T00:00:00Z"), line("b", "role: reader, name: fine")...))
	for _, c := range []struct {
		server *ServerConfig
		client *ClientConfig
		want   []string
	}{
		{nil, nil, nil},
		{&ServerConfig{Cert: cert, Key: key, Tokens: known}, nil, []string{"false " + cert + ": the certificate ends at ", `false ` + known + `: token "late" ended at 2001`}},
		{&ServerConfig{Cert: caller, Key: callerKey}, nil, []string{"true " + caller + ": the certificate ended", "extended key usage is not serverAuth", "no DNS name"}},
		{&ServerConfig{Cert: cert, Key: callerKey, ClientCA: cert, Tokens: key}, nil, []string{"private key does not match", "is not the certificate of a CA", "the tokens: "}},
		{nil, &ClientConfig{CA: caFile, Cert: caller, Key: callerKey}, []string{"the certificate ended", "no URI cellgate://ROLE/NAME"}},
		{nil, &ClientConfig{CA: "/nonexistent", TokenFile: "/nonexistent2"}, []string{"/nonexistent", "/nonexistent2"}},
	} {
		got := Check(c.server, c.client, now)
		text := ""
		for _, f := range got {
			text += fmt.Sprintln(f.Bad, f.Text)
		}
		if len(got) != len(c.want) {
			t.Errorf("%d findings, want %d:\n%s", len(got), len(c.want), text)
		}
		for _, w := range c.want {
			if !strings.Contains(text, w) {
				t.Errorf("not found: %s in\n%s", w, text)
			}
		}
	}
}
