package scratch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

type postgresServer struct{ dir, server, initdb, client string }

func newPostgres(dir string) (*server, error) {
	if os.Getuid() == 0 {
		return nil, errors.New("PostgreSQL's server does not run as root: call cellgate try as another user, or load the dump into a server of yours and give --database")
	}
	paths, err := programs("PostgreSQL's server (apt-get install postgresql)", []string{"/usr/lib/postgresql/*/bin"}, "postgres", "initdb", "psql")
	if err != nil {
		return nil, err
	}
	p := &postgresServer{dir, paths[0], paths[1], paths[2]}
	return &server{
		prepare: p.prepare, load: p.load, home: "postgres", stop: syscall.SIGINT,
		url:       func(database string) string { return "postgres://postgres@/" + database + "?host=" + dir },
		databases: "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres' ORDER BY 1",
	}, nil
}

func (p *postgresServer) prepare(ctx context.Context, dir string) (*exec.Cmd, error) {
	data := filepath.Join(dir, "data")
	cmd := exec.CommandContext(ctx, p.initdb, "--pgdata="+data, "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "--auth=trust")
	cmd.Dir = dir
	if err := run(ctx, cmd); err != nil {
		return nil, err
	}
	return exec.Command(p.server, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off"), nil
}

// harmless are the errors that a dump may cause: it gives its tables to roles that do not exist here, or sets
// parameters that a newer server has.
var harmless = regexp.MustCompile(`ERROR: +(role ".*" does not exist|unrecognized configuration parameter)`)

func (p *postgresServer) load(ctx context.Context, database string, dump io.Reader) error {
	psql := func(database string, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, p.client, append([]string{"--no-psqlrc", "--quiet", "--host=" + p.dir, "--username=postgres", "--dbname=" + database, "--output=" + os.DevNull}, args...)...)
	}
	if err := run(ctx, psql("postgres", "--command=CREATE DATABASE "+database)); err != nil {
		return err
	}
	cmd := psql(database)
	output := &strings.Builder{}
	cmd.Stdin, cmd.Stderr = dump, output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("psql: %w: %s", err, output)
	}
	for line := range strings.Lines(output.String()) {
		if strings.Contains(line, "ERROR: ") && !harmless.MatchString(line) {
			return fmt.Errorf("psql: %s", strings.TrimSpace(line))
		}
	}
	return nil
}
