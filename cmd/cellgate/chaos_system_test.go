package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cellgate/internal/health"
	"cellgate/internal/rpc"
	"cellgate/internal/testwait"

	"google.golang.org/grpc"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// member is one process of a system. It can be killed, and started again on the same ports and
// data.
type member struct {
	t    testing.TB
	name string
	args []string
	log  string
	cmd  *exec.Cmd
	// binary is the program that it runs, or "" for the test's own binary.
	binary string
}

func (m *member) start() {
	m.t.Helper()
	f, err := os.OpenFile(m.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // the child has its own copy
	m.cmd = exec.Command(cmp.Or(m.binary, os.Args[0]), m.args...)
	m.cmd.Env = append(os.Environ(), asCellgate+"=1")
	m.cmd.Stdout, m.cmd.Stderr = f, f
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
}

// signal ends the process with a signal and gives its exit error.
func (m *member) signal(s os.Signal) error {
	m.t.Helper()
	if m.cmd == nil {
		return nil
	}
	if err := m.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		m.t.Errorf("%s: %v", m.name, err)
	}
	err := m.cmd.Wait()
	m.cmd = nil
	return err
}

// kill is kill -9. It fails if the process had already ended.
func (m *member) kill() {
	m.t.Helper()
	var exit *exec.ExitError
	err := m.signal(syscall.SIGKILL)
	if status, ok := exitOf(err, &exit); !ok || status.Signal() != syscall.SIGKILL {
		m.t.Errorf("%s had ended before it was killed: %v\n%s", m.name, err, m.tail())
	}
}

func exitOf(err error, exit **exec.ExitError) (syscall.WaitStatus, bool) {
	if !errors.As(err, exit) {
		return 0, false
	}
	status, ok := (*exit).Sys().(syscall.WaitStatus)
	return status, ok
}

// tail gives the end of the process's log.
func (m *member) tail() string {
	text, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return m.name + ":\n  " + strings.Join(lines[max(0, len(lines)-12):], "\n  ")
}

// realSystem is cells with their agents, and a gateway, each a process.
type realSystem struct {
	t       testing.TB
	cells   []*member
	agents  []*member
	gateway *member
	api     string
	web     string
	hosts   int
	conn    *grpc.ClientConn
}

// portsGiven are the ports that freePort returned. Tests run concurrently, and a caller may listen
// seconds later.
var portsGiven sync.Map

// freePort returns a port that nobody listens on, and never the same one twice. It is below the
// range of outgoing connections, so that it stays free while its process is dead.
func freePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(18000))
		if _, given := portsGiven.LoadOrStore(addr, true); given {
			continue
		}
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

// startSystem starts cells with hosts each, and waits until all are ready. more returns further
// arguments for a kind of process.
func startSystem(t testing.TB, cells, hosts int, more func(kind string) []string) *realSystem {
	t.Helper()
	dir := t.TempDir()
	s := &realSystem{t: t, hosts: cells * hosts, api: freePort(t), web: freePort(t)}
	extra := func(kind string, args ...string) []string {
		if more != nil {
			args = append(args, more(kind)...)
		}
		return append(args, "--log-level", "info")
	}
	var cellAddrs []string
	for i := range cells {
		name, cellAddr := fmt.Sprintf("cell%d", i+1), freePort(t)
		uuid := fmt.Sprintf("c0000000-0000-4000-8000-%012d", i+1)
		cellAddrs = append(cellAddrs, "--cell", name+"="+uuid+"@"+cellAddr)
		s.cells = append(s.cells, &member{t: t, name: name, log: filepath.Join(dir, name+".log"), args: extra("cell",
			"cell", "--name", name, "--uuid", uuid, "--grpc", cellAddr, "--data", filepath.Join(dir, name))})
		s.agents = append(s.agents, &member{t: t, name: "agents of " + name, log: filepath.Join(dir, name+".agents.log"), args: extra("agent",
			"agent", "--cell", name, "--replica", cellAddr, "--hosts", fmt.Sprint(hosts))})
	}
	s.gateway = &member{
		t: t, name: "gateway", log: filepath.Join(dir, "gateway.log"),
		args: extra("gateway", append([]string{"gateway", "--grpc", s.api, "--http", s.web}, cellAddrs...)...),
	}
	conn, err := rpc.Dial(s.api)
	if err != nil {
		t.Fatal(err)
	}
	s.conn = conn
	t.Cleanup(func() {
		_ = conn.Close()
		for _, m := range s.all() {
			_ = m.signal(syscall.SIGKILL)
		}
		if t.Failed() {
			for _, m := range s.all() {
				t.Log(m.tail())
			}
		}
	})
	for _, m := range s.all() {
		m.start()
	}
	s.awaitReady(testwait.Limit)
	s.awaitHosts(testwait.Limit)
	return s
}

func (s *realSystem) all() []*member {
	return append(append(append([]*member{}, s.cells...), s.agents...), s.gateway)
}

// await waits until done returns true. why is what is missing.
func (s *realSystem) await(within time.Duration, what string, done func(context.Context) (ok bool, why string)) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	why := ""
	for {
		var ok bool
		if ok, why = done(ctx); ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			var tails []string
			for _, m := range s.all() {
				tails = append(tails, m.tail())
			}
			s.t.Fatalf("%s: not within %v: %s\n%s", what, within, why, strings.Join(tails, "\n"))
		}
	}
}

// awaitReady waits until the gateway is ready and every cell answers it.
func (s *realSystem) awaitReady(within time.Duration) {
	s.t.Helper()
	s.await(within, "the system is ready", func(ctx context.Context) (bool, string) {
		code, report, err := s.ready(ctx)
		if err != nil || code != http.StatusOK {
			return false, fmt.Sprint(code, report, err)
		}
		list, err := cellgatev1.NewCellsClient(s.conn).ListCells(ctx, &cellgatev1.ListCellsRequest{})
		if err != nil {
			return false, err.Error()
		}
		for _, c := range list.GetCells() {
			if !c.GetAvailable() {
				return false, c.GetCell() + ": " + c.GetReason()
			}
		}
		return true, ""
	})
}

// awaitHosts waits until every host is registered and up.
func (s *realSystem) awaitHosts(within time.Duration) {
	s.t.Helper()
	s.await(within, "every host is registered", func(ctx context.Context) (bool, string) {
		list, err := cellgatev1.NewCellsClient(s.conn).ListCells(ctx, &cellgatev1.ListCellsRequest{})
		n := 0
		for _, c := range list.GetCells() {
			n += int(c.GetHosts())
		}
		return n == s.hosts, fmt.Sprintf("%d of %d hosts, %v", n, s.hosts, err)
	})
}

// ready asks the gateway's /readyz.
func (s *realSystem) ready(ctx context.Context) (int, health.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, testwait.Limit)
	defer cancel()
	var report health.Report
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.web+"/readyz", nil)
	if err != nil {
		return 0, report, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, report, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	return resp.StatusCode, report, err
}

// claims gives all live claims by claim_id, hosts all hosts.
func (s *realSystem) claims() (map[string]*cellgatev1.Claim, error) {
	all := map[string]*cellgatev1.Claim{}
	client := cellgatev1.NewClaimsClient(s.conn)
	for token := ""; ; {
		ctx, cancel := context.WithTimeout(s.t.Context(), testwait.Limit)
		list, err := client.ListClaims(ctx, &cellgatev1.ListClaimsRequest{PageSize: maxPage, PageToken: token})
		cancel()
		if err == nil && len(list.GetUnavailableCells()) > 0 {
			err = fmt.Errorf("without %v", list.GetUnavailableCells())
		}
		if err != nil {
			return nil, fmt.Errorf("list claims: %w", err)
		}
		for _, c := range list.GetClaims() {
			all[c.GetClaimId()] = c
		}
		if token = list.GetNextPageToken(); token == "" {
			return all, nil
		}
	}
}

func (s *realSystem) listHosts() ([]*cellgatev1.Host, error) {
	var all []*cellgatev1.Host
	client := cellgatev1.NewHostsClient(s.conn)
	for token := ""; ; {
		ctx, cancel := context.WithTimeout(s.t.Context(), testwait.Limit)
		list, err := client.ListHosts(ctx, &cellgatev1.ListHostsRequest{PageSize: maxPage, PageToken: token})
		cancel()
		if err == nil && len(list.GetUnavailableCells()) > 0 {
			err = fmt.Errorf("without %v", list.GetUnavailableCells())
		}
		if err != nil {
			return nil, fmt.Errorf("list hosts: %w", err)
		}
		all = append(all, list.GetHosts()...)
		if token = list.GetNextPageToken(); token == "" {
			return all, nil
		}
	}
}

// loadProcess is the client of the chaos test, as a process of its own.
type loadProcess struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startLoad(t testing.TB, l chaosLoad) *loadProcess {
	t.Helper()
	config, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	p := &loadProcess{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), asChaosClient+"="+string(config))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.in.Close()
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("the client: %v", err)
		}
	})
	return p
}

// command gives the client a command and waits for its answer.
func (p *loadProcess) command(command string) chaosCount {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		p.t.Fatal(err)
	}
	if !p.lines.Scan() {
		p.t.Fatalf("the client ended: %v", p.lines.Err())
	}
	var c chaosCount
	if err := json.Unmarshal(p.lines.Bytes(), &c); err != nil {
		p.t.Fatal(err)
	}
	return c
}
