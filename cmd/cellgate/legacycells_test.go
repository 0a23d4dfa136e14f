package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cellgate/internal/testaddr"
	"cellgate/internal/testwait"
)

// A gateway starts although its cell's legacy database does not answer. It runs the scheduler of
// that cell, and reports the cell as unavailable, not as full.
func TestGatewayOfALegacyOnlyCellWithoutItsDatabase(t *testing.T) {
	nobody := testaddr.Dead(t)
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
	p := launch(t, true, "gateway", "--drain-delay", "0s", "--config", file)
	addr := p.await(`msg="gateway starts" grpc=(\S+)`)[1]
	out, stderr, status := typed(t.Context(), "", "select", "--addr", addr, "--vcpus", "1", "--dry-run")
	if status != exitRefused || !strings.Contains(stderr, "no cell that the request may use answered: cell1 (the cell") {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
	out, stderr, status = typed(t.Context(), "", "cells", "--addr", addr)
	if status != 0 || !regexp.MustCompile(`GATE\n`).MatchString(out) || !regexp.MustCompile(`(not known|LEGACY since .*, pinned)`).MatchString(out) {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
}

// Files of gateway.legacy that cannot be used are reported at the start, all at once and by their
// keys, like other problems of the configuration.
func TestGateway_LegacyCellFiles_AreLoggedAtStart(t *testing.T) {
	dir := t.TempDir()
	empty, ca, password := filepath.Join(dir, "empty"), filepath.Join(dir, "ca.pem"), filepath.Join(dir, "password")
	for path, text := range map[string]string{empty: "\n", ca: "nothing", password: "secret\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "gateway.yaml")
	text := `gateway:
  http: 127.0.0.1:0
  grpc: 127.0.0.1:0
  tls: {cert: ` + dir + `/none.pem, key: ` + dir + `/none.key}
  cells:
    - {name: cell1, uuid: c0000000-0000-4000-8000-000000000001, replicas: ["127.0.0.1:1"]}
    - {name: cell2, uuid: c0000000-0000-4000-8000-000000000002, replicas: ["127.0.0.1:2"]}
  legacy:
    - {cell: cell1, database: 'mysql://nova@127.0.0.1:1/nova', password_file: ` + dir + `/not-there, ca: ` + ca + `, api: 'mysql://nova@127.0.0.1:1/api', api_password_file: ` + dir + `}
    - {cell: cell2, database: 'mysql://nova@127.0.0.1:1/nova2', password_file: ` + password + `, api: 'mysql://nova@127.0.0.1:1/api', api_password_file: ` + empty + `}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"gateway.legacy: password_file of cell cell1: open " + dir + "/not-there: no such file", "gateway.legacy: ca of cell cell1: " + ca + " has no certificate",
		"gateway.legacy: api_password_file of cell cell1: read " + dir + ": is a directory", "gateway.legacy: api_password_file of cell cell2: " + empty + " is empty",
	}
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	out, stderr, status := typed(ctx, "", "gateway", "--config", file)
	if status != exitRefused || ctx.Err() != nil || out != "" {
		t.Errorf("status %d, %v: %s", status, ctx.Err(), out)
	}
	for _, text := range append(want, dir+"/none.pem") {
		if !strings.Contains(stderr, text) {
			t.Errorf("%q is not in\n%s", text, stderr)
		}
	}
	if strings.Contains(stderr, "password_file of cell cell2: "+password) {
		t.Errorf("a file that is as it should be is told of:\n%s", stderr)
	}
	out, _, _ = typed(ctx, "", "doctor", "gateway", "--config", file, "-o", "json")
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("%q is not in what doctor says\n%s", text, out)
		}
	}
}
