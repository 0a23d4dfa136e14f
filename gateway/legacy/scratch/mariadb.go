package scratch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

type mariaServer struct{ dir, server, install, client string }

func newMariaDB(dir string) (*server, error) {
	paths, err := programs("MariaDB's server (apt-get install mariadb-server)", []string{"/usr/sbin", "/usr/libexec"}, "mariadbd", "mariadb-install-db", "mariadb")
	if err != nil {
		return nil, err
	}
	m := &mariaServer{dir, paths[0], paths[1], paths[2]}
	return &server{
		prepare: m.prepare, load: m.load, home: "information_schema", stop: syscall.SIGTERM,
		url: func(database string) string {
			return "mysql://root@localhost/" + database + "?unix_socket=" + m.socket()
		},
		databases: "SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY 1",
	}, nil
}

func (m *mariaServer) socket() string { return filepath.Join(m.dir, "s") }

func (m *mariaServer) prepare(ctx context.Context, dir string) (*exec.Cmd, error) {
	data := filepath.Join(dir, "data")
	args := []string{"--no-defaults", "--datadir=" + data, "--innodb-log-file-size=64M", "--innodb-flush-method=nosync", "--innodb-doublewrite=0", "--tmpdir=" + dir}
	if os.Getuid() == 0 {
		args = append(args, "--user=root")
	}
	install := exec.CommandContext(ctx, m.install, append(args, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")...)
	install.Dir = dir
	if err := run(ctx, install); err != nil {
		return nil, err
	}
	return exec.Command(m.server, append(args, "--skip-networking", "--socket="+m.socket(), "--pid-file="+filepath.Join(dir, "pid"),
		"--skip-log-bin", "--performance-schema=OFF", "--innodb-buffer-pool-size=256M", "--innodb-flush-log-at-trx-commit=0",
		"--max-allowed-packet=1G", "--character-set-server=utf8mb3")...), nil
}

func (m *mariaServer) load(ctx context.Context, database string, dump io.Reader) error {
	cmd := exec.CommandContext(ctx, m.client, "--no-defaults", "--socket="+m.socket(), "--user=root", "--max-allowed-packet=1G",
		"--init-command=CREATE DATABASE IF NOT EXISTS "+database, "--execute", "SELECT 1")
	if err := run(ctx, cmd); err != nil {
		return err
	}
	cmd = exec.CommandContext(ctx, m.client, "--no-defaults", "--socket="+m.socket(), "--user=root", "--max-allowed-packet=1G", database)
	cmd.Stdin = &collated{from: bufio.NewReaderSize(dump, 1<<20)}
	return run(ctx, cmd)
}

// collated adapts a dump of MySQL to MariaDB. It replaces MySQL's default collation, which MariaDB does not have, by
// one that MariaDB has. Nova compares names by the default collation only in tables that name no other. It leaves
// out the statement that sets GTID_PURGED, which MariaDB does not have either.
type collated struct {
	from *bufio.Reader
	rest []byte
	// within: the line is not at its end yet. purged: the statement that is left out is not.
	within, purged bool
}

func (c *collated) Read(b []byte) (int, error) {
	for len(c.rest) == 0 {
		part, err := c.from.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && len(part) == 0 {
			return 0, err
		}
		c.purged = c.purged || !c.within && bytes.HasPrefix(part, []byte("SET @@GLOBAL.GTID_PURGED"))
		switch c.rest = part; {
		case c.purged:
			c.rest, c.purged = nil, !bytes.HasSuffix(part, []byte(";\n"))
		case !c.within && !bytes.HasPrefix(part, []byte("INSERT ")):
			c.rest = bytes.ReplaceAll(part, []byte("utf8mb4_0900_ai_ci"), []byte("utf8mb4_general_ci"))
		}
		c.within = !bytes.HasSuffix(part, []byte("\n"))
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
