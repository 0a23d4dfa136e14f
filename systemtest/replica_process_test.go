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
	"cellgate/shard/sqlshard"
)

// replicaEnv has, in a process that is to be a replica, its name and the URL of its
// database.
const replicaEnv = "CELLGATE_SYSTEMTEST_REPLICA"

// downAfter is how long a host of these replicas may be silent.
const downAfter = 8 * time.Second

// serveReplica is a replica of cell1 until its standard input ends. It prints its
// address when it is ready.
func serveReplica(name, url string) (err error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	store, err := sqlshard.Open(ctx, sqlshard.Options{Cell: "cell1", CellUUID: uuidOf(0xc, 1), URL: url, Migrate: true, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c, err := cell.New(cell.Config{
		Name: "cell1", UUID: uuidOf(0xc, 1), Replica: name, ServiceDownTime: downAfter, HeartbeatEvery: downAfter / 6,
	}, cell.Deps{Store: store, Log: log})
	if err != nil {
		return err
	}
	server := rpc.NewServer(log, cell.ServerOptions()...)
	c.Register(server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- c.Run(ctx) }()
	go func() { ended <- server.Serve(l) }()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is what counts
		stop()
	}()
	select {
	case <-c.Ready():
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
}

func startReplica(t *testing.T, name, url string) *replicaProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), replicaEnv+"="+name+" "+url)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	var said strings.Builder
	cmd.Stderr = &said
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = in.Close()
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() > 0 {
			t.Errorf("replica %s ended: %v\n%s", name, err, &said)
		}
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("replica %s did not start: %v\n%s", name, err, &said)
	}
	return &replicaProcess{addr: strings.TrimSpace(addr), cmd: cmd}
}

func (r *replicaProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	must(t, r.cmd.Process.Signal(s))
}
