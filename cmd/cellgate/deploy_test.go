package main

import (
	"bufio"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"cellgate/internal/config"
	"cellgate/internal/norace"
)

const deploy = "../../deploy"

// unit is a systemd unit: "Section.Key" to its values, in order.
type unit map[string][]string

func readUnit(t *testing.T, path string) unit {
	t.Helper()
	u, section := unit{}, ""
	for _, line := range strings.Split(readFile(t, path), "\n") {
		switch key, value, ok := strings.Cut(line, "="); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		case ok:
			u[section+"."+key] = append(u[section+"."+key], value)
		default:
			t.Errorf("%s: not a line of a unit: %q", path, line)
		}
	}
	return u
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func units(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(deploy + "/systemd/*.service")
	if err != nil || len(files) != 4 {
		t.Fatalf("units: %v %v, want 4", files, err)
	}
	return files
}

// hardening is the settings that every unit has, most of which take rights away.
var hardening = map[string]string{
	"NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "ProtectSystem": "strict", "ProtectHome": "yes",
	"PrivateTmp": "yes", "PrivateDevices": "yes", "RestrictNamespaces": "yes", "MemoryDenyWriteExecute": "yes",
	"SystemCallArchitectures": "native", "DynamicUser": "yes", "UMask": "0077",
	"Restart": "always", // SIGHUP is a clean end for on-failure
}

func TestUnitsRunCommandsThereAreAndAreHardened(t *testing.T) {
	for _, file := range units(t) {
		u := readUnit(t, file)
		start := u["Service.ExecStart"]
		if len(start) != 1 {
			t.Errorf("%s: %d ExecStart", file, len(start))
			continue
		}
		args := strings.Fields(strings.NewReplacer("%i", "cell1", "%S", t.TempDir()).Replace(start[0]))
		if args[0] != "/usr/bin/cellgate" {
			t.Errorf("%s runs %s", file, args[0])
		}
		root := newRoot(terminal{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
		cmd, rest, err := root.Find(args[1:])
		if err != nil || cmd == root {
			t.Errorf("%s: %v is no command: %v", file, args[1:], err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v: %v", file, rest, err)
		}
		if len(cmd.Flags().Args()) > 0 {
			t.Errorf("%s: arguments %v", file, cmd.Flags().Args())
		}
		// The --config file of the unit is an example under its installed name.
		name := filepath.Base(cmd.Flags().Lookup("config").Value.String())
		name = strings.NewReplacer("cell-cell1", "cell1", "fleet.", "agent1.").Replace(name)
		if _, err := os.Stat(filepath.Join(deploy, "examples", name)); err != nil {
			t.Errorf("%s: there is no example of its configuration: %v", file, err)
		}
		for key, want := range hardening {
			if got := u["Service."+key]; len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s is %q, want %q", file, key, got, want)
			}
		}
		stop, err := time.ParseDuration(strings.Join(u["Service.TimeoutStopSec"], ""))
		if whole := shutdownWithin + config.MaxDrainDelay; err != nil || stop <= whole {
			t.Errorf("%s: TimeoutStopSec %v (%v), want more than the %v a process takes to stop", file, stop, err, whole)
		}
	}
}

// deploy/README.md states the same stop times as the units and the program.
func TestDeployReadmeSaysHowLongAStopTakes(t *testing.T) {
	text := strings.Join(strings.Fields(readFile(t, deploy+"/README.md")), " ")
	for _, file := range units(t) {
		stop := readUnit(t, file)["Service.TimeoutStopSec"]
		want := fmt.Sprintf("its `drain_delay` (%.0f min at most), then takes %.0f s at most; the units wait %s s.",
			config.MaxDrainDelay.Minutes(), shutdownWithin.Seconds(), strings.TrimSuffix(strings.Join(stop, ""), "s"))
		if !strings.Contains(text, want) {
			t.Errorf("%s: deploy/README.md does not say %q", file, want)
		}
	}
	if u := readUnit(t, deploy+"/systemd/tls.conf"); len(u) != 1 || strings.Join(u["Service.SupplementaryGroups"], "") != "cellgate-tls" {
		t.Errorf("tls.conf is %v", u)
	}
}

// The unit of a cell takes no shard in a database, and its drop-in does.
func TestUnits_ShardInADatabase_TakesTheDropIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cell-cell1.yaml")
	if err := os.WriteFile(file, []byte("cell:\n  name: cell1\n  uuid: c0000000-0000-4000-8000-000000000001\n  store: postgres://cellgate@127.0.0.1:1/cell1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"cellgate-cell@.service": "is given with store", "database.conf": ""} {
		start := readUnit(t, deploy+"/systemd/"+name)["Service.ExecStart"]
		args := strings.Fields(strings.NewReplacer("/etc/cellgate/cell-%i.yaml", file, "%i", "cell1", "%S", t.TempDir()).Replace(start[len(start)-1]))
		cmd, rest, err := newRoot(terminal{in: strings.NewReader(""), out: io.Discard, err: io.Discard}).Find(args[1:])
		if err != nil {
			t.Fatal(err)
		}
		var problem string
		loading := &cobra.Command{}
		load := bindKeys(loading, cmd.Name(), nil)
		if err := loading.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := load(); err != nil {
			problem = err.Error()
		}
		if !strings.Contains(problem, want) || (want == "") != (problem == "") {
			t.Errorf("%s: %q, want %q", name, problem, want)
		}
	}
}

// The README's map names every command.
func TestReadmeNamesEveryCommand(t *testing.T) {
	_, row, ok := strings.Cut(readFile(t, "../../README.md"), "| the command: ")
	row, _, end := strings.Cut(row, " |")
	if !ok || !end {
		t.Fatal("README.md has no row of the command")
	}
	named := regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(row, -1)
	var got, want []string
	for _, m := range named {
		got = append(got, m[1])
	}
	for _, c := range newRoot(terminal{in: strings.NewReader(""), out: io.Discard, err: io.Discard}).Commands() {
		if !c.Hidden && c.Name() != "help" && c.Name() != "completion" {
			want = append(want, c.Name())
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("README.md names the commands %v, there are %v", got, want)
	}
}

// staticBinary builds as the Dockerfile does.
func staticBinary(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "cellgate")
	cmd := exec.Command("go", "build", "-o", out, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// TestStaticBinary builds the binary once for all checks.
func TestStaticBinary(t *testing.T) {
	norace.Skip(t, "it compiles the whole without cgo, as only the part without the detector does")
	binary := staticBinary(t)
	t.Run("systemd accepts the units", func(t *testing.T) { systemdAcceptsTheUnits(t, binary) })
	t.Run("the container is it on scratch", func(t *testing.T) { containerIsOnScratch(t, binary) })
}

func systemdAcceptsTheUnits(t *testing.T, binary string) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed: the units are not checked by it")
	}
	dir := t.TempDir()
	for _, file := range units(t) {
		text := strings.ReplaceAll(readFile(t, file), "/usr/bin/cellgate", binary)
		name := strings.Replace(filepath.Base(file), "@.", "@cell1.", 1)
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(analyze, "verify", "--man=no", path).CombinedOutput(); err != nil || strings.Contains(string(out), name) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		// The threshold is the exposure in tenths. 100 means that everything is allowed.
		if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", "--no-pager", path).CombinedOutput(); err != nil {
			t.Errorf("%s is exposed: %v\n%s", name, err, out)
		}
	}
}

func containerIsOnScratch(t *testing.T, binary string) {
	f, err := elf.Open(binary)
	if err == nil { // not an ELF platform otherwise
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				t.Error("the binary is not static: it names a loader")
			}
		}
		_ = f.Close()
	}
	cmd := exec.Command(binary, "version", "-o", "json")
	cmd.Env = nil
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), `"go": "go1.`) {
		t.Errorf("version: %v\n%s", err, out)
	}

	text := readFile(t, deploy+"/container/Dockerfile")
	stages := strings.SplitAfterN(text, "\nFROM scratch\n", 2)
	if len(stages) != 2 {
		t.Fatal("the last stage is not FROM scratch")
	}
	for _, want := range []string{"USER 65532:65532", `ENTRYPOINT ["/cellgate"]`} {
		if !strings.Contains(stages[1], want) {
			t.Errorf("the image's stage has no %s", want)
		}
	}
	if strings.Contains(stages[1], "\nRUN ") {
		t.Error("the image's stage runs something: scratch has nothing to run")
	}
	if !strings.Contains(stages[0], "CGO_ENABLED=0 go build -trimpath -o /out/cellgate ./cmd/cellgate") {
		t.Error("the image is built in another way than this test builds")
	}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 3 || f[0] != "COPY" || strings.HasPrefix(f[1], "--from") {
			continue
		}
		for _, source := range f[1 : len(f)-1] {
			if _, err := os.Stat(filepath.Join("../..", source)); err != nil {
				t.Errorf("COPY %s: %v", source, err)
			}
		}
	}
	// The compiler is one that go.mod accepts.
	wants := regexp.MustCompile(`(?m)^go (1\.\d+)`).FindStringSubmatch(readFile(t, "../../go.mod"))
	if len(wants) != 2 || !strings.Contains(text, "golang:"+wants[1]+" ") {
		t.Errorf("the Dockerfile does not build with Go %v of go.mod", wants)
	}
}

func TestExampleConfigurationsLoad(t *testing.T) {
	files, err := filepath.Glob(deploy + "/examples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: %v %v, want 3 or more", files, err)
	}
	loaded := map[string]bool{}
	for _, file := range files {
		section := strings.TrimRight(strings.TrimSuffix(filepath.Base(file), ".yaml"), "0123456789")
		if _, err := config.Load(section, config.Source{File: file}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		loaded[section] = true
	}
	for _, section := range []string{"gateway", "cell", "agent"} {
		if !loaded[section] {
			t.Errorf("there is no example of %s", section)
		}
	}
}

// k6 runs where nothing can be fetched. The scripts import only k6 itself and each other, and the
// version of k6 is pinned.
func TestLoadScriptsImportNothingRemote(t *testing.T) {
	scripts, err := filepath.Glob("../../loadtest/*.js")
	if err != nil || len(scripts) < 3 {
		t.Fatalf("scripts: %v %v", scripts, err)
	}
	imports := regexp.MustCompile(`(?m)(?:^import\s[^'"\n]*|\bimport\(|\brequire\(|\bopen\()['"]([^'"]+)['"]`)
	n := 0
	for _, script := range scripts {
		text := readFile(t, script)
		for _, m := range imports.FindAllStringSubmatch(text, -1) {
			n++
			name := m[1]
			if local, ok := strings.CutPrefix(name, "./"); ok {
				if _, err := os.Stat(filepath.Join("../../loadtest", local)); err != nil {
					t.Errorf("%s: %v", script, err)
				}
			} else if name != "k6" && !strings.HasPrefix(name, "k6/") || strings.HasPrefix(name, "k6/x/") {
				t.Errorf("%s imports %s", script, name)
			}
		}
		if i := strings.Index(text, "https://"); i >= 0 {
			t.Errorf("%s names something elsewhere: %.60s", script, text[i:])
		}
	}
	if n < 6 {
		t.Errorf("%d imports found, want those of k6 and of the other scripts", n)
	}
	if mod := readFile(t, "../../loadtest/k6.mod"); !regexp.MustCompile(`(?m)^tool go\.k6\.io/k6$`).MatchString(mod) ||
		!regexp.MustCompile(`\bgo\.k6\.io/k6 v1\.\d+\.\d+`).MatchString(mod) {
		t.Error("k6.mod pins no k6")
	}
}
