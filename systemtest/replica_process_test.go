package systemtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"cellgate/cell"
	"cellgate/internal/rpc"
	"cellgate/shard"
	"cellgate/shard/sqlshard"
)

// replicaEnv holds, in a replica's process, four fields: its name, its listen address, whether its
// load waits for input, and the URL of its database.
const replicaEnv = "CELLGATE_SYSTEMTEST_REPLICA"

// downAfter is how long a host of these replicas may be silent.
const downAfter = 8 * time.Second

// heldUp is a store whose Load waits until something is read from standard input.
type heldUp struct {
	*sqlshard.Store
	goes chan struct{}
}

func (s heldUp) Load(ctx context.Context, visit func(shard.Change) error) (shard.Cursor, error) {
	select {
	case <-s.goes:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Store.Load(ctx, visit)
}

// serveReplica runs a replica of cell1 until its standard input ends. It prints its address when it
// is ready or, if held, as soon as it listens.
func serveReplica(name, addr string, held bool, url string) (err error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	store, err := sqlshard.Open(ctx, sqlshard.Options{Cell: "cell1", CellUUID: uuidOf(0xc, 1), URL: url, Migrate: true, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var of shard.Store = store
	goes := make(chan struct{})
	if held {
		of = heldUp{store, goes}
	}
	c, err := cell.New(cell.Config{
		Name: "cell1", UUID: uuidOf(0xc, 1), Replica: name, ServiceDownTime: downAfter, HeartbeatEvery: downAfter / 6,
	}, cell.Deps{Store: of, Log: log})
	if err != nil {
		return err
	}
	server := rpc.NewServer(log, cell.ServerOptions()...)
	c.Register(server)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- c.Run(ctx) }()
	go func() { ended <- server.Serve(l) }()
	go func() {
		if _, err := os.Stdin.Read(make([]byte, 1)); err == nil {
			close(goes)
			_, _ = io.Copy(io.Discard, os.Stdin) // blocks until the input ends
		}
		stop()
	}()
	shown := c.Ready()
	if held {
		listens := make(chan struct{})
		close(listens)
		shown = listens
	}
	select {
	case <-shown:
		fmt.Println(l.Addr())
	case err := <-ended:
		return err
	}
	err = <-ended
	server.Stop()
	return err
}

// replicaProcess is a replica in a process of its own.
type replicaProcess struct {
	addr string
	cmd  *exec.Cmd
	in   io.Writer
}

func startReplica(t *testing.T, name, url string) *replicaProcess {
	t.Helper()
	return startReplicaAt(t, name, url, "127.0.0.1:0", false)
}

// startReplicaAt starts a replica at an address. If held, its load waits until something is written
// to in.
func startReplicaAt(t *testing.T, name, url, at string, held bool) *replicaProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %t %s", replicaEnv, name, at, held, url))
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	var output strings.Builder
	cmd.Stderr = &output
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = in.Close()
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() > 0 {
			t.Errorf("replica %s ended: %v\n%s", name, err, &output)
		}
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("replica %s did not start: %v\n%s", name, err, &output)
	}
	return &replicaProcess{addr: strings.TrimSpace(addr), cmd: cmd, in: in}
}

func (r *replicaProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	must(t, r.cmd.Process.Signal(s))
}
