package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cellgate/internal/config"
	"cellgate/internal/ingress"
	"cellgate/internal/security/testca"
	"cellgate/internal/testwait"
)

// freePorts are flags that make a system use free ports.
var freePorts = []string{"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--cell-base-port", "0"}

// fails runs a command that serves. It must end with status 1 and one line that contains all of
// says.
func fails(t *testing.T, args []string, says ...string) {
	t.Helper()
	// If the command does not fail, it serves until this context ends.
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	out, stderr, status := typed(ctx, "", args...)
	if ctx.Err() != nil {
		t.Fatalf("cellgate %v does not fail:\n%s%s", args, out, stderr)
	}
	line := stderr[strings.LastIndex(strings.TrimSuffix(stderr, "\n"), "\n")+1:]
	if status != exitRefused || out != "" || !strings.HasPrefix(line, "cellgate: ") {
		t.Errorf("cellgate %v: status %d, want %d and a line of cellgate's\n%s%s", args, status, exitRefused, out, stderr)
	}
	for _, text := range says {
		if !strings.Contains(line, text) {
			t.Errorf("cellgate %v: %q is not in %q", args, text, line)
		}
	}
}

func cellArgs(data string) []string {
	return []string{"cell", "--name", "cell1", "--uuid", "c0000000-0000-4000-8000-000000000001", "--grpc", "127.0.0.1:0", "--data", data}
}

func TestStartupErrorsHaveTheirCauseAndEndWith1(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(file, "below")
	fails(t, cellArgs(below), "cell cell1: data directory "+below+" cannot be made: ", "not a directory", "give a place this user may write to (--data)")

	data := t.TempDir()
	launchDev(t, data)
	held := append([]string{"dev", "--cells", "1", "--hosts", "1", "--data", data}, freePorts...)
	fails(t, held, filepath.Join(data, "cell1"), "is held by this process", "stop it, or give another directory (--data)")
	fails(t, cellArgs(filepath.Join(data, "cell1")), "is held by this process")
}

func TestCell_DamagedShard_ErrorHasPebblesText(t *testing.T) {
	data := t.TempDir()
	cell := launch(t, true, cellArgs(data)...)
	cell.await(`msg="cell is ready"`)
	cell.stop()
	manifests, err := filepath.Glob(filepath.Join(data, "pebble", "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no manifest: %v", err)
	}
	for _, m := range manifests {
		if err := os.Truncate(m, 3); err != nil {
			t.Fatal(err)
		}
	}
	fails(t, cellArgs(data), "data directory "+data+": its rows cannot be read: ", filepath.Base(manifests[0]), "bring back a copy")
}

// snapshot returns the content of every file below a directory.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var text []byte
			text, err = os.ReadFile(path)
			fmt.Fprintf(&all, "%s %x\n", path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// If one directory is wrong, all stay unchanged.
func TestNoShardIsOpenedWhileOneIsWrong(t *testing.T) {
	data := t.TempDir()
	p, _, _ := launchDev(t, data)
	p.stop()
	again := append([]string{"dev", "--cells", "2", "--hosts", "20", "--data", data}, freePorts...)
	file := filepath.Join(data, "cell2", "FORMAT")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	format := regexp.MustCompile(`(?m)^format \d+\n`)
	if len(format.FindAll(good, -1)) != 1 {
		t.Fatalf("no format in %q", good)
	}
	for change, says := range map[string]string{
		"format 99\n": `has "format 99" in its FORMAT file, and this program reads `,
		"format 1 \n": `has "format 1 " in its FORMAT file`,
	} {
		if err := os.WriteFile(file, format.ReplaceAllLiteral(good, []byte(change)), 0o600); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, data)
		fails(t, again, "cell cell2: data directory "+filepath.Join(data, "cell2"), says)
		if snapshot(t, data) != before {
			t.Errorf("%q in cell2: files were changed", change)
		}
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	launchDev(t, data)
}

// Problems with files, ports and directories are reported all at once, each with its setting, path
// and remedy. Nothing is created.
func TestStartup_SeveralProblems_ErrorNamesAll(t *testing.T) {
	taken := listen(t)
	addr, dir := taken.Addr().String(), t.TempDir()
	broken := testca.Put(dir, "tokens.yaml", []byte("- {sha256: 00, role: reader, name: a}\n"))
	data := filepath.Join(testca.Put(dir, "file", nil), "below")
	tls := []string{"--tls-cert", dir + "/cert.pem", "--tls-key", dir + "/key.pem", "--tls-tokens", broken}
	server := func(section string) []string {
		return []string{
			section + ".cert: the server's certificate: open " + dir + "/cert.pem: no such file or directory; put the file there, or correct the path",
			section + ".key: the server's certificate: open " + dir + "/key.pem: no such file or directory",
			section + ".tokens: the tokens: " + broken + `: token 1 ("a"): sha256 is not 64 hexadecimal digits; correct or replace it`,
		}
	}
	for _, c := range []struct {
		args, says []string
	}{
		{
			append([]string{"cell", "--name", "cell1", "--uuid", "c0000000-0000-4000-8000-000000000001", "--grpc", addr, "--metrics", "127.0.0.999:1", "--data", data}, tls...),
			append(server("cell.tls"), "cannot listen on "+addr+": the port is in use", "with --grpc", "cannot listen on 127.0.0.999:1 (--metrics)", "data directory "+data+" cannot be made: ", "(--data)", "6 problems"),
		},
		{
			append([]string{"gateway", "--cell", "cell1=127.0.0.1:1", "--grpc", addr, "--http", "127.0.0.999:1", "--cell-tls-ca", dir + "/ca.pem"}, tls...),
			append(server("gateway.tls"), "with --grpc", "(--http)", "gateway.cell_tls.ca: the CAs of servers: open "+dir+"/ca.pem", "6 problems"),
		},
		{
			[]string{"agent", "--cell", "cell1", "--hosts", "2", "--replica", "127.0.0.1:1", "--metrics", addr, "--tls-ca", dir + "/ca.pem", "--tls-token-file", dir + "/token"},
			[]string{"with --metrics", "agent.tls.ca: ", "agent.tls.token_file: the token: open " + dir + "/token", "3 problems"},
		},
		{
			[]string{"dev", "--data", data, "--cells", "1", "--grpc", addr, "--http", "127.0.0.1:0", "--cell-base-port", "0"},
			[]string{"with --grpc", "cannot be made", "2 problems"},
		},
	} {
		_, stderr, status := typed(t.Context(), "", c.args...)
		if status != exitRefused {
			t.Errorf("%v: status %d", c.args, status)
		}
		for _, text := range c.says {
			if !strings.Contains(stderr, text) {
				t.Errorf("%s: %q is not in\n%s", c.args[0], text, stderr)
			}
		}
	}
}

// A cell answers how far it is while it loads its table.
func TestCell_WhileItLoads_HealthAndMetricsAnswer(t *testing.T) {
	a := &assembly{log: slog.New(slog.DiscardHandler)}
	c := config.Default().Cell
	c.Name, c.UUID = "cell1", "c0000000-0000-4000-8000-000000000001"
	l, err := a.listen("127.0.0.1:0", "grpc")
	if err != nil {
		t.Fatal(err)
	}
	web, err := a.listen("127.0.0.1:0", "metrics")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.observe(config.Default().Telemetry, "cell"); err != nil {
		t.Fatal(err)
	}
	tls, err := a.addServerTLS("cell.tls", config.ServerTLS{}, ingress.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.addCell(t.Context(), c, l, web, tls); err != nil {
		t.Fatal(err)
	}
	for i := range a.parts {
		if a.parts[i].Name == c.Name { // it gets no further
			a.parts[i].Run = func(ctx context.Context) error { <-ctx.Done(); return nil }
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), testwait.Limit)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.run(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{"/readyz": "is loading its shard", "/healthz": `"ok"`, "/metrics": "cellgate_build_info"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+web.Addr().String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		text, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, no %q in %s (%v)", path, resp.Status, want, text, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
