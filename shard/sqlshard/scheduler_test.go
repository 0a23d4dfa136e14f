package sqlshard

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// Environment variables of a scheduler process: the shard's URL, and the socket on which it accepts
// batches.
const (
	schedulerURL    = "CELLGATE_SCHEDULER_URL"
	schedulerSocket = "CELLGATE_SCHEDULER_SOCKET"
	schedulerLanes  = 6
)

// request is a batch for a lane, reply the answer of Apply.
type request struct{ Ops []shard.Op }

type reply struct {
	Applied shard.Applied
	Failed  bool
	Kind    fault.Kind
	Message string
}

// TestSchedulerProcess is the scheduler that the simulation starts and kills. It serves each
// connection with a lane of its own.
func TestSchedulerProcess(t *testing.T) {
	url := os.Getenv(schedulerURL)
	if url == "" {
		t.Skip("the simulation runs it in processes of its own")
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // the process that started this one is gone
	}()
	ctx := t.Context()
	s, err := persistently(func() (*Store, error) { return Open(ctx, testOptions(url)) })
	if err != nil {
		t.Fatal(err)
	}
	lanes := make(chan shard.Lane, schedulerLanes)
	for i := range schedulerLanes {
		l, err := persistently(func() (shard.Lane, error) { return s.OpenLane(ctx, fmt.Sprintf("replica-%d", i)) })
		if err != nil {
			t.Fatal(err)
		}
		lanes <- l
	}
	sock, err := net.Listen("unix", os.Getenv(schedulerSocket))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	for {
		c, err := sock.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go serveLane(ctx, c, <-lanes)
	}
}

// persistently repeats a call that faults may fail, up to 50 times.
func persistently[T any](try func() (T, error)) (v T, err error) {
	for range 50 {
		if v, err = try(); err == nil {
			return v, nil
		}
	}
	return v, err
}

func serveLane(ctx context.Context, c net.Conn, l shard.Lane) {
	in, out := gob.NewDecoder(bufio.NewReader(c)), gob.NewEncoder(c)
	for {
		var q request
		if in.Decode(&q) != nil {
			return // the client is gone
		}
		var r reply
		var err error
		if r.Applied, err = l.Apply(ctx, q.Ops); err != nil {
			r = reply{Failed: true, Kind: fault.KindOf(err), Message: err.Error()}
		}
		if out.Encode(r) != nil {
			return
		}
	}
}

// scheduler is the client's view of the process, with one connection a lane.
type scheduler struct {
	url, dir    string
	incarnation int
	cmd         *osexec.Cmd
	stdin       io.Closer

	mu sync.Mutex
	// up is a closed channel while callers may go on.
	up     chan struct{}
	socket string
	lanes  [schedulerLanes]laneClient
}

type laneClient struct {
	mu     sync.Mutex
	socket string
	conn   net.Conn
	in     *gob.Decoder
	out    *gob.Encoder
}

func newScheduler(url, dir string) *scheduler {
	return &scheduler{url: url, dir: dir, up: make(chan struct{})}
}

// start runs a process and waits until its lanes are open.
func (s *scheduler) start() error {
	s.incarnation++
	socket := filepath.Join(s.dir, fmt.Sprintf("s%d", s.incarnation))
	s.cmd = osexec.Command(os.Args[0], "-test.run=^TestSchedulerProcess$", "-test.timeout=0")
	s.cmd.Env = append(os.Environ(), schedulerURL+"="+s.url, schedulerSocket+"="+socket)
	s.cmd.Stderr = os.Stderr
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return err
	}
	s.stdin = stdin
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(stdout)
	var output []string
	for lines.Scan() {
		if lines.Text() == "ready" {
			s.mu.Lock()
			s.socket = socket
			s.mu.Unlock()
			return nil
		}
		output = append(output, lines.Text())
	}
	return fmt.Errorf("the scheduler did not start: %q, %w", output, errors.Join(lines.Err(), s.cmd.Wait()))
}

// kill ends the process with SIGKILL.
func (s *scheduler) kill() error {
	if s.cmd == nil {
		return nil
	}
	err := s.cmd.Process.Kill()
	_ = s.cmd.Wait() // its error is only that the process was killed
	_ = s.stdin.Close()
	s.cmd = nil
	return err
}

// open lets callers go on; shut makes them wait.
func (s *scheduler) open() { close(s.up) }

func (s *scheduler) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = make(chan struct{})
}

// apply sends a batch to a lane. If the process dies before it answers, the outcome is unknown.
func (s *scheduler) apply(lane int) func(context.Context, []shard.Op) (shard.Applied, error) {
	return func(ctx context.Context, ops []shard.Op) (shard.Applied, error) {
		l := &s.lanes[lane]
		l.mu.Lock()
		defer l.mu.Unlock()
		if err := s.reach(ctx, l); err != nil {
			return shard.Applied{}, err
		}
		var r reply
		err := l.out.Encode(request{ops})
		if err == nil {
			err = l.in.Decode(&r)
		}
		if err != nil {
			_ = l.conn.Close()
			l.conn = nil
			return shard.Applied{}, fault.Wrap(fault.OutcomeUnknown, err, "the scheduler did not answer")
		}
		if r.Failed {
			return shard.Applied{}, fault.New(r.Kind, "%s", r.Message)
		}
		return r.Applied, nil
	}
}

// reach connects to the running process.
func (s *scheduler) reach(ctx context.Context, l *laneClient) error {
	for {
		s.mu.Lock()
		up, socket := s.up, s.socket
		s.mu.Unlock()
		select {
		case <-up:
		case <-ctx.Done():
			return ctx.Err()
		}
		if l.conn != nil && l.socket == socket {
			return nil
		}
		if l.conn != nil {
			_ = l.conn.Close()
			l.conn = nil
		}
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", socket)
		if err != nil {
			// The process was just killed: retry until shut makes this caller wait.
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		l.conn, l.socket, l.in, l.out = c, socket, gob.NewDecoder(bufio.NewReader(c)), gob.NewEncoder(c)
		return nil
	}
}

func (s *scheduler) stop() error {
	err := s.kill()
	for i := range s.lanes {
		if c := s.lanes[i].conn; c != nil {
			_ = c.Close()
		}
	}
	return err
}
