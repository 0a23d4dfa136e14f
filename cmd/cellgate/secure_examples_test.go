package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cellgate/internal/config"
	"cellgate/internal/security"
	"cellgate/internal/security/testca"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func secureExample(name string) string {
	return filepath.Join(deploy, "examples", "secure", name+".yaml")
}

// Every TLS key is in an example file that loads as it is, and that listens on addresses reachable
// from other machines.
func TestSecureExamplesShowEveryKeyOfTLS(t *testing.T) {
	for name, section := range map[string]string{"gateway": "gateway", "cell1": "cell", "agent1": "agent"} {
		if _, err := config.Load(section, config.Source{File: secureExample(name)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := readFile(t, secureExample(name))
		n := 0
		for _, k := range config.Keys(section) {
			if i := strings.Index(k.Path, "tls."); i >= 0 {
				n++
				if !strings.Contains(text, "\n    "+k.Path[i+4:]+": ") {
					t.Errorf("%s does not show %s", name, k.Path)
				}
			}
		}
		if n < 5 {
			t.Errorf("%s: %d keys of TLS only", name, n)
		}
		if run := "bin/cellgate " + section + " --config deploy/examples/secure/" + name + ".yaml"; !strings.Contains(text, run+"\n") {
			t.Errorf("%s does not say how to run it: %s", name, run)
		}
	}
	// Without TLS, or without callers that are known, the same addresses are refused.
	for line, says := range map[string]string{
		"    cert: .cellgate/tls/server.pem\n    key: .cellgate/tls/server-key.pem\n":                                  "set gateway.tls.cert",
		"    client_ca: .cellgate/tls/ca.pem\n    client_cert_optional: true\n    tokens: .cellgate/tls/tokens.yaml\n": "set gateway.tls.client_ca or gateway.tls.tokens",
	} {
		text := readFile(t, secureExample("gateway"))
		changed := strings.Replace(text, line, "", 1)
		file := testca.Put(t.TempDir(), "gateway.yaml", []byte(changed))
		_, err := config.Load("gateway", config.Source{File: file})
		if changed == text || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("without %q: %v", line, err)
		}
		if _, err := config.Load("gateway", config.Source{File: file, Flags: map[string]string{"gateway.insecure": "true"}}); err != nil && strings.Contains(err.Error(), "loopback") {
			t.Errorf("--insecure: %v", err)
		}
	}
}

// The commands of docs/reference/security.md make the files that the secure examples name, and
// these make a system.
func TestSecureExamplesRunWithTheCertificatesOfTheDocumentation(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed: deploy/tls/certs.sh is not run")
	}
	_, script, _ := strings.Cut(readFile(t, "../../docs/reference/security.md"), "<!-- script -->\n```sh\n")
	script, _, ok := strings.Cut(script, "```\n<!-- /script -->")
	if !ok {
		t.Fatal("docs/reference/security.md has no script")
	}
	dir := t.TempDir()
	files := filepath.Join(dir, "tls")
	script = strings.ReplaceAll(script, ".cellgate/tls", files)
	cmd := exec.Command("bash", "-euc", script)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	again := exec.Command("../../deploy/tls/certs.sh", files, "ca", "another")
	if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "is there already") {
		t.Errorf("a second CA over the first: %v %s", err, out)
	}
	for want, args := range map[string][]string{
		"certs.sh DIR server NAME SAN": {files, "server", "another"},
		"nowhere/ca.pem":               {filepath.Join(dir, "nowhere"), "server", "another", "DNS:another"},
	} {
		if out, err := exec.Command("../../deploy/tls/certs.sh", args...).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("certs.sh %v: %v, no %q in %s", args, err, want, out)
		}
	}
	out, stderr, status := typed(t.Context(), "", "token", "new", "--role", "reader", "--name", "dashboard")
	lines := strings.SplitAfter(out, "\n")
	if status != exitDone || len(lines) != 3 {
		t.Fatalf("token new: %d %q %s", status, out, stderr)
	}
	testca.Put(files, "tokens.yaml", []byte(lines[1]))
	token := testca.Put(files, "token", []byte(lines[0]))

	replace := []string{".cellgate/tls", files, ".cellgate/", dir + "/", "0.0.0.0:9101", "127.0.0.1:0", "0.0.0.0:8080", "127.0.0.1:0", "0.0.0.0:9090", "127.0.0.1:0", "hosts: 1000", "hosts: 20"}
	example := func(name string, more ...string) string {
		return testca.Put(dir, name+".yaml", []byte(strings.NewReplacer(append(more, replace...)...).Replace(readFile(t, secureExample(name)))))
	}
	cell := launch(t, true, "cell", "--config", example("cell1"))
	cellAddr := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
	fleet := launch(t, true, "agent", "--config", example("agent1", "127.0.0.1:9101", cellAddr))
	fleet.await(`msg="every host is registered"`)
	gw := launch(t, true, "gateway", "--drain-delay", "0s", "--config", example("gateway", "127.0.0.1:9101", cellAddr))
	api := gw.await(`msg="gateway starts".* grpc=(\S+)`)[1]

	ca := []string{"--ca", filepath.Join(files, "ca.pem")}
	alice := append(ca, "--cert", filepath.Join(files, "alice.pem"), "--key", filepath.Join(files, "alice-key.pem"))
	var cells cellgatev1.ListCellsResponse
	cellgate(t, api, exitDone, &cells, append([]string{"cells"}, alice...)...)
	if len(cells.GetCells()) != 1 || !cells.GetCells()[0].GetAvailable() || cells.GetCells()[0].GetHosts() != 20 {
		t.Errorf("cells: %v", &cells)
	}
	var placed cellgatev1.SelectDestinationsResponse
	cellgate(t, api, exitDone, &placed, append([]string{"select"}, alice...)...)
	cellgate(t, api, exitDone, &cells, append([]string{"cells", "--token-file", token}, ca...)...)
	for want, args := range map[string][]string{
		`"PERMISSION_DENIED"`: append([]string{"select", "--token-file", token}, ca...),
		`"UNAUTHENTICATED"`:   append([]string{"cells"}, ca...),
	} {
		if out := cellgate(t, api, exitRefused, nil, args...); !strings.Contains(out, want) {
			t.Errorf("%v: %s", args, out)
		}
	}
	stale := testca.Put(dir, "stale", []byte("cellgate_stale\n"))
	for want, args := range map[string][]string{
		"cellgate: the gateway at " + api + ": the token is not known; correct --token-file, or --cert and --key\n": {"--token-file", stale},
		"or a client certificate is needed; correct --token-file, or --cert and --key\n":                            nil,
	} {
		if _, stderr, status := typed(t.Context(), "", slices.Concat([]string{"cells", "--addr", api}, ca, args)...); status != exitRefused || !strings.HasSuffix(stderr, want) {
			t.Errorf("%v: status %d, %q, want %q", args, status, stderr, want)
		}
	}
	cellgate(t, api, exitUnreachable, nil, "cells")
	// The doctor has no findings about the files.
	for _, f := range security.Check(&security.ServerConfig{
		Cert: filepath.Join(files, "server.pem"), Key: filepath.Join(files, "server-key.pem"), ClientCA: filepath.Join(files, "ca.pem"), Tokens: filepath.Join(files, "tokens.yaml"),
	}, &security.ClientConfig{CA: filepath.Join(files, "ca.pem"), Cert: filepath.Join(files, "agent.pem"), Key: filepath.Join(files, "agent-key.pem")}, time.Now()) {
		t.Errorf("found %+v", f)
	}
	if info, err := os.Stat(filepath.Join(files, "agent-key.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is of mode %v, %v", info, err)
	}
}
