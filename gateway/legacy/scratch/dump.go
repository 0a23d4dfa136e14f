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

// kind is the kind of server that a dump is from.
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

// kindOf finds a dump's kind from its beginning.
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

// dump is the text of a file, which may be compressed.
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
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) { // a shorter file is not compressed
		if d.text, err = gzip.NewReader(buffered); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return d, nil
}

// load loads a dump into a server, and reports progress.
func load(ctx context.Context, s *server, database, file string, progress Loading) error {
	d, err := openDump(file)
	if err != nil {
		return err
	}
	defer func() { _ = d.file.Close() }() // it was read
	r := &progressReader{dump: d, name: file, progress: progress, last: time.Now()}
	return s.load(ctx, database, r)
}

// progressReader reads a dump and reports every two seconds how much of the file was read.
type progressReader struct {
	dump     *dump
	name     string
	progress Loading
	last     time.Time
}

func (r *progressReader) Read(b []byte) (int, error) {
	n, err := r.dump.text.Read(b)
	if now := time.Now(); r.progress != nil && now.Sub(r.last) > 2*time.Second {
		if at, e := r.dump.file.Seek(0, io.SeekCurrent); e == nil {
			r.progress(r.name, at, r.dump.total)
		}
		r.last = now
	}
	return n, err
}
