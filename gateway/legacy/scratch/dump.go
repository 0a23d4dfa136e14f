package scratch

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// kind is what made a dump.
type kind string

const (
	unknown    kind = ""
	mariaDB    kind = "MariaDB or MySQL"
	postgreSQL kind = "PostgreSQL"
)

func (k kind) server(dir string) (*server, error) {
	if k == postgreSQL {
		return newPostgres(dir)
	}
	return newMariaDB(dir)
}

// kindOf looks at the beginning of a dump.
func kindOf(file string) (kind, error) {
	d, err := openDump(file)
	if err != nil {
		return unknown, err
	}
	defer func() { _ = d.file.Close() }() // it was read
	head := make([]byte, 4<<10)
	n, err := io.ReadFull(d.text, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return unknown, fmt.Errorf("%s: %w", file, err)
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("PGDMP")):
		return unknown, fmt.Errorf("%s: is in pg_dump's custom format: make a plain one with pg_restore -f dump.sql %s", file, file)
	case bytes.Contains(head, []byte("PostgreSQL database")):
		return postgreSQL, nil
	case bytes.Contains(head, []byte("/*!")), bytes.Contains(head, []byte("/*M!")), bytes.Contains(head, []byte("CREATE TABLE `")):
		return mariaDB, nil
	}
	return unknown, fmt.Errorf("%s: is no dump of mariadb-dump, mysqldump or pg_dump", file)
}

// dump is the text of a file that may be compressed.
type dump struct {
	file  *os.File
	text  io.Reader
	total int64
}

func openDump(file string) (*dump, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	d := &dump{file: f}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	d.total = info.Size()
	buffered := bufio.NewReaderSize(f, 1<<20)
	d.text = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) { // a shorter file is none
		if d.text, err = gzip.NewReader(buffered); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return d, nil
}

// load has a server run a dump, and tells how far it is.
func load(ctx context.Context, s *server, database, file string, progress Loading) error {
	d, err := openDump(file)
	if err != nil {
		return err
	}
	defer func() { _ = d.file.Close() }() // it was read
	t := &told{dump: d, name: file, progress: progress, last: time.Now()}
	return s.load(ctx, database, t)
}

// told reads a dump and tells how far it is in the file, every two seconds.
type told struct {
	dump     *dump
	name     string
	progress Loading
	last     time.Time
}

func (t *told) Read(b []byte) (int, error) {
	n, err := t.dump.text.Read(b)
	if now := time.Now(); t.progress != nil && now.Sub(t.last) > 2*time.Second {
		if at, e := t.dump.file.Seek(0, io.SeekCurrent); e == nil {
			t.progress(t.name, at, t.dump.total)
		}
		t.last = now
	}
	return n, err
}
