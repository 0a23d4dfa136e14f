package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A gateway starts without the legacy database of its cell, runs the scheduler of a
// cell that has none, and says that the cell is unavailable, not that it is full.
func TestGatewayOfALegacyOnlyCellWithoutItsDatabase(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	text := `gateway:
  http: 127.0.0.1:0
  grpc: 127.0.0.1:0
  drain_delay: 0s
  cells: [{name: cell1, uuid: c0000000-0000-4000-8000-000000000001}]
  legacy: [{cell: cell1, database: 'mysql://nova@` + nobody + `/nova', legacy_only: true}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, true, "gateway", "--config", file)
	addr := p.await(`msg="gateway starts" grpc=(\S+)`)[1]
	out, stderr, status := typed(t.Context(), "", "select", "--addr", addr, "--vcpus", "1", "--dry-run")
	if status != exitRefused || !strings.Contains(stderr, "in the cells that answered; these did not: cell1 (the cell") {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
	out, stderr, status = typed(t.Context(), "", "cells", "--addr", addr)
	if status != 0 || !regexp.MustCompile(`GATE\n`).MatchString(out) || !regexp.MustCompile(`(not known|LEGACY since .*, pinned)`).MatchString(out) {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
}
