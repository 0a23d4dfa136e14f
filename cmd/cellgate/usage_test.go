package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/testaddr"
)

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	n := 0
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		n++
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		out, stderr, status := typed(t.Context(), "", args...)
		if status != exitDone || stderr != "" {
			t.Errorf("%v: status %d, stderr %q", args, status, stderr)
		}
		for _, want := range []string{"Examples:\n  cellgate", "Usage:\n  " + cmd.CommandPath(), "-h, --help"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v: help does not say %q:\n%s", args, want, out)
			}
		}
		if cmd.Short == "" {
			t.Errorf("%s has no short description", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				visit(sub)
			}
		}
	}
	visit(newRoot(terminal{in: strings.NewReader(""), out: io.Discard, err: io.Discard}))
	if n < 40 {
		t.Errorf("%d commands were visited only", n)
	}
}

func TestWrongUsageEndsWith2AndSaysWhatIsWrong(t *testing.T) {
	for args, want := range map[string]string{
		"slect":                            `unknown command "slect"; did you mean select?`,
		"selec --vcpus 1":                  `unknown command "selec"; did you mean select?`,
		"frobnicate --deep":                `unknown command "frobnicate"`,
		"claims lst --cell c":              `unknown command "lst"; did you mean get or list?`,
		"cells pinn cell1 legacy":          `unknown command "pinn"; did you mean pin`,
		"hosts forcedown h --reason x":     `unknown command "forcedown"; did you mean force-down?`,
		"cells cell1 --nope":               "unknown flag: --nope",
		"select --nope":                    "unknown flag: --nope",
		"help foo":                         `unknown command "foo"`,
		"help selec":                       `unknown command "selec"; did you mean select?`,
		"help claims lst":                  `unknown command "lst"; did you mean get or list?`,
		"select --operation move":          "--operation move: is of an instance that exists: name it with --instance",
		"select --operation unshelve":      "name it with --instance",
		"frobnicate":                       `unknown command "frobnicate"`,
		"claims":                           "say what to do: alternate, confirm, doubled, get, list, release or transfer",
		"claims lst":                       `unknown command "lst"; did you mean get or list?`,
		"select --operation shelve":        `--operation: "shelve" is none of build, move`,
		"claims transfer a b":              "accepts 3 arg(s), received 2; give CONSUMER CLAIM TO",
		"decisions":                        "say what to do: get or list",
		"decisions get":                    "accepts 1 arg(s), received 0",
		"decisions list --limit -5":        "--limit: -5 is below 0",
		"claims get":                       "accepts 1 arg(s), received 0",
		"dev --host 3":                     "unknown flag: --host",
		"dev extra --data d":               `unknown command "extra"`,
		"dev":                              "dev.data: must be set",
		"dev --data d --cells x":           `--cells: dev.cells: "x" is not a whole number`,
		"dev --data d --cells 0":           "--cells: dev.cells: 0 is below 1",
		"dev --data d --once":              "is of use with sample only",
		"dev --data d --grpc 0.0.0.0:9090": "not a loopback address: dev has no TLS",
		"cells --token-file t --addr h:1":  "--token-file: would be sent to h:1 in the clear; give --ca for TLS",
		"cells --ca /nonexistent":          "--ca: the CAs of servers: open /nonexistent: no such file or directory; put the file there, or correct the path",
		"hosts --cert c":                   "a client's certificate needs its key",
		"token":                            "say what to do: new",
		"token new --role king --name a":   `role "king" is none of conductor`,
		"token new --role agent --name a":  "an agent needs the service hosts",
		"token new --role reader":          "a token needs a name",
		"token new --expires soon":         "--expires: ",
		"gateway --grpc 0.0.0.0:1 --tls-cert c --tls-key k": "set gateway.tls.client_ca or gateway.tls.tokens to know the callers",
		"agent --replica h:1 --tls-token-file f":            "agent.tls.token_file: would be sent to h:1 in the clear",
		"gateway":                                           "gateway.cells: a gateway needs at least one cell",
		"gateway --cell a=h:1 --cell a=h:2":                 `gateway.cells[1].name: "a" is that of cells[0] already`,
		"gateway --cell a=h:1 --filters X":                  `--filters: gateway.filters[0]: `,
		"gateway --config /nonexistent.yaml":                "/nonexistent.yaml",
		"cell --name a":                                     "cell.data: must be set",
		"cell --grpc example.org:9101":                      "give --insecure",
		"agent --hosts -1":                                  "--hosts: agent.hosts: -1 is below 0",
		"agent --print -o yaml":                             `--output: "yaml" is none of table, json`,
		"agent --print --pci-device address=x":              `--pci-device: agent.host.pci_devices[0].address: "x" is not domain:bus:slot.function`,
		"agent --print --cpu-dedicated-set 1-0":             `--cpu-dedicated-set: agent.host.cpu_dedicated_set: "1-0" ends before it begins`,
		"agent --print --reserved-huge-pages node=0":        `--reserved-huge-pages: agent.host.reserved_huge_pages: "node=0" is not`,
		"agent --log-level loud":                            `--log-level: log.level: "loud" is none of`,
		"cells pin c1 open --reason x":                      "needs a cell and one of legacy, shadow, native",
		"cells pin c1 legacy":                               "--reason: must say why",
		"cells -o xml":                                      `--output: "xml" is none of table, json, wide, yaml, name`,
		"version -o yaml":                                   `--output: "yaml" is none of table, json`,
		"select --count 0":                                  "--count: 0 is below 1",
		"select --vcpus many":                               `--vcpus: "many" is not a whole number of 32 bits`,
		"select -f /nonexistent.json":                       "/nonexistent.json",
		"select -f - --vcpus 1":                             "[file vcpus]",
		"select --group x":                                  "[group policy]",
		"select --resource VGPU=9999999999":                 "--resource: VGPU=9999999999 is too much",
		"capacity --add h=4294967297":                       "--add: h=4294967297 is too much",
		"select --instance a --count 2":                     "[instance count]",
		"hosts --timeout soon":                              `--timeout: "soon" is not a duration`,
		"cells --timeout 0s":                                "--timeout: 0s is not above 0",
		"select --timeout -1s":                              "--timeout: -1s is not above 0",
		"cells --addr=":                                     `--addr (or CELLGATE_ADDR): "" is not an address; write it as host:port`,
		"hosts --addr bad_host:xx":                          `"bad_host:xx" has no port between 1 and 65535`,
		"claims list --addr h:0":                            `"h:0" has no port between 1 and 65535`,
		"hosts --limit -1":                                  "--limit: -1 is below 0",
		"claims list --limit -5":                            "--limit: -5 is below 0",
		"select -f -":                                       "standard input: body: is not JSON",
	} {
		out, stderr, status := typed(t.Context(), "{not json", strings.Fields(args)...)
		if status != exitUsage {
			t.Errorf("cellgate %s: status %d, want %d", args, status, exitUsage)
		}
		if !strings.HasPrefix(stderr, "cellgate: ") || !strings.Contains(stderr, want) {
			t.Errorf("cellgate %s: stderr does not say %q:\n%s", args, want, stderr)
		}
		if out != "" {
			t.Errorf("cellgate %s: printed %q", args, out)
		}
	}
}

func TestUnknownKeyOfAFileIsNamedWithItsLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cell.yaml")
	if err := os.WriteFile(file, []byte("cell:\n  name: a\n  dta: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := typed(t.Context(), "", "cell", "--config", file)
	if want := file + ":3: unknown key cell.dta; did you mean cell.data?"; status != exitUsage || !strings.Contains(stderr, want) {
		t.Errorf("status %d, stderr %q, want %d and %q", status, stderr, exitUsage, want)
	}
}

func TestPortInUseChangesNothing(t *testing.T) {
	l := listen(t)
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	for flag, value := range map[string]string{"grpc": addr, "http": addr, "cell-base-port": port, "placement": addr} {
		data := filepath.Join(t.TempDir(), "data")
		args := []string{"dev", "--data", data, "--cells", "1", "--hosts", "1"}
		for f, free := range map[string]string{"grpc": "127.0.0.1:0", "http": "127.0.0.1:0", "cell-base-port": "0"} {
			if f != flag {
				args = append(args, "--"+f, free)
			}
		}
		_, stderr, status := typed(t.Context(), "", append(args, "--"+flag, value)...)
		if status == exitDone || !strings.Contains(stderr, addr) || !strings.Contains(stderr, "in use") || !strings.Contains(stderr, "--"+flag) {
			t.Errorf("%s: status %d, stderr %q, want the address, that it is in use, and the flag", flag, status, stderr)
		}
		if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the data directory was made: %v", flag, err)
		}
	}
}

func TestUnreachableGatewayEndsWith3AndNamesIt(t *testing.T) {
	addr := testaddr.Dead(t)
	for _, args := range []string{"cells", "hosts", "claims list", "select", "claims confirm a b"} {
		_, stderr, status := typed(t.Context(), "", append(strings.Fields(args), "--addr", addr)...)
		if status != exitUnreachable || !strings.Contains(stderr, "no answer from the gateway at "+addr) {
			t.Errorf("cellgate %s: status %d, stderr %q", args, status, stderr)
		}
	}
	out, _, status := typed(t.Context(), "", "cells", "-o", "json", "--addr", addr)
	if status != exitUnreachable || !strings.Contains(out, `"reason": "CELL_UNAVAILABLE"`) {
		t.Errorf("status %d, JSON %s", status, out)
	}
	var b strings.Builder
	if status := run(t.Context(), []string{"cells"}, terminal{out: io.Discard, err: &b, env: []string{"CELLGATE_ADDR=" + addr}}); status != exitUnreachable || !strings.Contains(b.String(), addr) {
		t.Errorf("with CELLGATE_ADDR: status %d, stderr %q", status, b.String())
	}
}

func TestExitStatusOfEveryKind(t *testing.T) {
	for _, k := range fault.Kinds() {
		want := exitRefused
		if k == fault.InvalidRequest {
			want = exitUsage
		}
		if got := exitStatus(fmt.Errorf("wrapped: %w", fault.New(k, "x"))); got != want {
			t.Errorf("%s: status %d, want %d", k, got, want)
		}
	}
	for err, want := range map[error]int{
		nil:                  exitDone,
		errors.New("broken"): exitRefused,
		&config.Problems{}:   exitUsage,
		// The exit status depends on which side is silent, not on the kind of the error.
		&unreachableError{addr: "h:1", err: fault.New(fault.CellUnavailable, "x")}: exitUnreachable,
		&serverError{fault.New(fault.CellUnavailable, "x")}:                        exitRefused,
		&serverError{fault.Invalid("a", "x")}:                                      exitUsage,
	} {
		if got := exitStatus(err); got != want {
			t.Errorf("%v: status %d, want %d", err, got, want)
		}
	}
}

func TestWordingShowsEveryField(t *testing.T) {
	err := fault.InvalidFields([]fault.Field{{Path: "a.b", Problem: "is bad"}, {Path: "c", Problem: "is worse"}})
	if got, want := wording(err), "2 fields are invalid:\n  a.b: is bad\n  c: is worse"; got != want {
		t.Errorf("wording = %q, want %q", got, want)
	}
	if got, want := wording(fmt.Errorf("x: %w", fault.New(fault.NotFound, "no claim"))), "x: no claim"; got != want {
		t.Errorf("wording = %q, want %q", got, want)
	}
	// Of a gateway's error the message is shown. Of an error in the command's own process every
	// cause is.
	failed := fault.Wrap(fault.CellUnavailable, fmt.Errorf("reading: %w", fault.Wrap(fault.Internal, errors.New("disk\non fire"), "row 7")), "shard")
	if got, want := wording(fmt.Errorf("x: %w", failed)), "x: shard"; got != want {
		t.Errorf("wording = %q, want %q", got, want)
	}
	if got, want := wording(&serverError{fmt.Errorf("x: %w", failed)}), "x: shard: reading: row 7: disk; on fire"; got != want {
		t.Errorf("wording = %q, want %q", got, want)
	}
}

func TestUsage_MistypedFlagsAndValues_SayWhatMayBeMeant(t *testing.T) {
	for line, want := range map[string]string{
		"hosts --limt 3":                      `unknown flag: --limt; did you mean "--limit"?`,
		"hosts --nothing 3":                   "unknown flag: --nothing\n",
		"hosts -o tabel":                      `--output: "tabel" is none of table, json, wide, yaml, name; did you mean "table"?`,
		"hosts --timeout 5":                   `--timeout: "5" is not a duration as 30s, 10m or 2h`,
		"select --vcpus x":                    `--vcpus: "x" is not a whole number of 32 bits`,
		"select --vcpus 99999999999":          `--vcpus: "99999999999" is not a whole number`,
		"select --weigh-multiplier x":         `--weigh-multiplier: "x" is not a number`,
		"select --resource VGPU:1":            `--resource: "VGPU:1" is not NAME=NUMBER`,
		"select --dry-run=maybe":              `--dry-run: "maybe" is not true or false`,
		"select --vcpus 1 --operation migrat": `--operation: "migrat" is none of build, move, evacuate, unshelve, live_migrate, rebuild` + "\n",
	} {
		_, stderr, status := typed(t.Context(), "", strings.Fields(line)...)
		if status != exitUsage || !strings.Contains(stderr, want) || strings.Contains(stderr, "strconv") {
			t.Errorf("%s: status %d: %s, want %s", line, status, stderr, want)
		}
	}
}
