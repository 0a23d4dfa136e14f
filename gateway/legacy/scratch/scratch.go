package scratch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cellgate/gateway/legacy/novadb"
)

// Databases are the URLs of the databases in the dumps, for package novadb; "" for none.
type Databases struct {
	Cell, API, Placement string

	dir    string
	server *exec.Cmd
	end    os.Signal
	ended  chan error
}

// Loading is called every two seconds with how many bytes of a file were read.
type Loading func(file string, done, total int64)

// server is a kind of database server.
type server struct {
	// prepare creates the server's files in its folder, and gives the command that runs the server.
	prepare func(ctx context.Context, dir string) (*exec.Cmd, error)
	// load runs a dump, in a database made for it unless the dump names others.
	load func(ctx context.Context, database string, dump io.Reader) error
	// url gives the URL of a database. home is a database that every server has.
	url  func(database string) string
	home string
	// databases is the query for the names of all databases with tables of their own.
	databases string
	// stop is the signal with which it ends at once, even with open connections.
	stop os.Signal
}

// open gives a pool of connections to a database.
func (s *server) open(database string) (*sql.DB, error) {
	return novadb.OpenPool(novadb.Database{URL: s.url(database)}, time.Minute)
}

// ping fails until the server answers.
func (s *server) ping(ctx context.Context) error {
	db, err := s.open(s.home)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing was written
	return db.PingContext(ctx)
}

// names gives the names of all databases with tables of their own.
func (s *server) names(ctx context.Context) (names []string, err error) {
	db, err := s.open(s.home)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // it was read
	rows, err := db.QueryContext(ctx, s.databases)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err has the error
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// Load starts a server for dumps of one kind, plain or compressed by gzip, and loads them. An
// error says what is missing on this machine, or what is wrong with the dumps.
func Load(ctx context.Context, files []string, progress Loading) (found *Databases, err error) {
	kind := unknown
	for _, f := range files {
		k, err := kindOf(f)
		switch {
		case err != nil:
			return nil, err
		case kind != unknown && k != kind:
			return nil, fmt.Errorf("%s is a dump of another kind of server than %s", f, files[0])
		}
		kind = k
	}
	d := &Databases{}
	if d.dir, err = os.MkdirTemp("", "cellgate-try-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	s, err := kind.server(d.dir)
	if err != nil {
		return nil, err
	}
	if err := d.start(ctx, s); err != nil {
		return nil, err
	}
	for n, f := range files {
		if err := load(ctx, s, fmt.Sprintf("dump%d", n+1), f, progress); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
	}
	return d, d.find(ctx, s)
}

// Close ends the server and deletes its folder.
func (d *Databases) Close() error {
	if d.server != nil {
		_ = d.server.Process.Signal(d.end) // the server may have ended
		select {
		case <-d.ended:
		case <-time.After(30 * time.Second):
			_ = d.server.Process.Kill()
			<-d.ended
		}
		d.server = nil
	}
	return os.RemoveAll(d.dir)
}

func (d *Databases) start(ctx context.Context, s *server) error {
	cmd, err := s.prepare(ctx, d.dir)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(d.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the server has its own copy
	// It has a process group of its own, so that Ctrl-C ends it only through Close.
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = d.dir, out, out, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	d.server, d.end, d.ended = cmd, s.stop, make(chan error, 1)
	go func() { d.ended <- cmd.Wait() }() // ends with the server, which Close waits for
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-d.ended:
			d.server = nil
			return fmt.Errorf("the scratch server ended: %s", lastLines(out.Name()))
		case <-ctx.Done():
			return fmt.Errorf("the scratch server does not answer: %w: %s", err, lastLines(out.Name()))
		case <-tick.C:
		}
	}
}

func lastLines(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-1000):]))
}

// find finds the databases that cellgate try reads.
func (d *Databases) find(ctx context.Context, s *server) error {
	names, err := s.names(ctx)
	if err != nil {
		return err
	}
	var cells []string
	for _, name := range names {
		db, err := s.open(name)
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }() // it was read
		rows := func(table string) bool { // false also if there is no such table
			var one int
			return db.QueryRowContext(ctx, "SELECT 1 FROM "+table+" LIMIT 1").Scan(&one) == nil
		}
		if err := db.PingContext(ctx); err != nil {
			return err
		}
		switch {
		case rows("cell_mappings"):
			// Nova's API database had Placement's tables once; they are empty or old.
			d.API = s.url(name)
		case rows("compute_nodes"):
			cells = append(cells, name)
		case rows("resource_providers"):
			d.Placement = s.url(name)
		}
	}
	switch len(cells) {
	case 0:
		return fmt.Errorf("none of the databases in the dumps has rows in compute_nodes: %s", strings.Join(names, ", "))
	case 1:
		d.Cell = s.url(cells[0])
	default:
		return fmt.Errorf("the dumps have the databases of several cells, %s: give the dump of one", strings.Join(cells, ", "))
	}
	return nil
}

// programs finds programs on the path, or in folders that packages use. install names the package for the error.
func programs(install string, folders []string, names ...string) (paths []string, err error) {
	for _, n := range names {
		p, err := exec.LookPath(n)
		for _, pattern := range folders {
			if found, _ := filepath.Glob(filepath.Join(pattern, n)); err != nil && len(found) > 0 { // the pattern is valid
				p, err = found[len(found)-1], nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not on this machine: install %s, or load the dump into a server of yours and give --database", n, install)
		}
		paths = append(paths, p)
	}
	return paths, nil
}

// run runs a command to its end; the error has the end of its standard error.
func run(ctx context.Context, cmd *exec.Cmd) error {
	stderr := &strings.Builder{}
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // its children too
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		text := strings.TrimSpace(stderr.String())
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, text[max(0, len(text)-500):])
	}
	return nil
}
