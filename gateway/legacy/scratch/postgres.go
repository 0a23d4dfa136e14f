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
	"regexp"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

type postgresServer struct{ dir, server, initdb, client string }

func newPostgres(dir string) (server, error) {
	if os.Getuid() == 0 {
		return nil, errors.New("PostgreSQL's server does not run as root: call cellgate try as another user, or load the dump into a server of yours and give --database")
	}
	p := &postgresServer{dir: dir}
	for _, x := range []struct {
		to   *string
		name string
	}{{&p.server, "postgres"}, {&p.initdb, "initdb"}, {&p.client, "psql"}} {
		path, there := program([]string{x.name}, []string{"/usr/lib/postgresql/*/bin"})
		if !there {
			return nil, fmt.Errorf("%s is not on this machine: install PostgreSQL's server (apt-get install postgresql), or load the dump into a server of yours and give --database", x.name)
		}
		*x.to = path
	}
	return p, nil
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

func (p *postgresServer) ping(ctx context.Context) error {
	db, err := p.open("postgres")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing was written
	return db.PingContext(ctx)
}

// noRole is the one error that a dump may raise: it gives its tables to roles that are not here.
var noRole = regexp.MustCompile(`ERROR: +role ".*" does not exist`)

func (p *postgresServer) load(ctx context.Context, database string, dump io.Reader) error {
	psql := func(database string, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, p.client, append([]string{"--no-psqlrc", "--quiet", "--host=" + p.dir, "--username=postgres", "--dbname=" + database, "--output=" + os.DevNull}, args...)...)
	}
	if err := run(ctx, psql("postgres", "--command=CREATE DATABASE "+database)); err != nil {
		return err
	}
	cmd := psql(database)
	said := &strings.Builder{}
	cmd.Stdin, cmd.Stderr = dump, said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("psql: %w: %s", err, said)
	}
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, "ERROR: ") && !noRole.MatchString(line) {
			return fmt.Errorf("psql: %s", strings.TrimSpace(line))
		}
	}
	return nil
}

func (p *postgresServer) databases(ctx context.Context) ([]string, error) {
	db, err := p.open("postgres")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // it was read
	rows, err := db.QueryContext(ctx, "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres' ORDER BY 1")
	return namesOf(rows, err)
}

func (p *postgresServer) open(database string) (*sql.DB, error) {
	c, err := pgx.ParseConfig(p.url(database))
	if err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*c), nil
}

func (p *postgresServer) url(database string) string {
	return "postgres://postgres@/" + database + "?host=" + p.dir
}

func (p *postgresServer) stopSignal() os.Signal { return syscall.SIGINT }
