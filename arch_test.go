package cellgate

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rule lists what packages below a folder may import of this module: packages below the named
// folders. Test files are exempt, unless tests is set.
type rule struct {
	folder string
	// may lists folders of this module; the folder itself is always allowed.
	may []string
	// stdOnly forbids every import from outside the module and the standard
	// library.
	stdOnly bool
	why     string
}

// rules is ordered so that the most specific folder comes last: the last match counts.
var rules = []rule{
	{folder: "schedule", may: []string{"internal/python"}, stdOnly: true, why: "the core is pure: no I/O, clock, randomness, logging, no dependency to surprise it"},
	{folder: "schedule/hardware", may: []string{"internal/python"}, stdOnly: true, why: "whether a guest fits on a host's cells and devices depends on no table and no rules"},
	{folder: "schedule/merge", may: []string{"schedule"}, stdOnly: true, why: "answers are merged by the core's rules, without I/O"},
	{folder: "schedule/placement", stdOnly: true, why: "candidates are found without I/O, names or hosts"},
	{folder: "schedule/nova", may: []string{"schedule", "internal/fault", "internal/osnames", "internal/python"}, stdOnly: true, why: "Nova's forms become the core's, nothing else"},
	{folder: "shard", may: []string{"internal/fault", "schedule"}, stdOnly: true, why: "the contract of a store names no backend; of NUMA cells and devices it judges by the core's rules"},
	{folder: "shard/shardtest", may: []string{"shard", "internal/fault", "internal/testlong", "schedule"}, why: "the conformance suite sees the contract only"},
	{folder: "shard/rowcodec", may: []string{"shard", "proto/cellgate/storage"}, why: "bytes of rows know no backend"},
	{folder: "shard/pebbleshard", may: []string{"shard", "internal/fault", "proto/cellgate/storage"}, why: "a backend keeps rows and decides nothing"},
	{folder: "shard/sqlshard", may: []string{"shard", "internal/fault", "proto/cellgate/storage"}, why: "a backend keeps rows and decides nothing"},
	{folder: "cell", may: []string{"schedule", "shard", "internal", "proto"}, why: "a cell is the shell around the core; it never sees a gateway or a backend"},
	{folder: "cell/gate", may: []string{"proto", "schedule", "shard"}, why: "the rules of an upgrade are pure: they read reports and rows, and write nothing"},
	{folder: "cell/liveness", may: []string{"shard"}, why: "who is silent is known without knowing who asks"},
	{folder: "cell/proposals", may: []string{"internal/expression", "internal/fault", "internal/wire", "proto", "schedule"}, why: "a query is answered from a table: it knows no store and no agent"},
	{folder: "cell/replica", may: []string{"cell/liveness", "cell/proposals", "internal/fault", "internal/telemetry", "internal/throttle", "internal/wire", "proto", "schedule", "shard"}, why: "a table follows its shard: it knows neither agents nor gateways"},
	{folder: "cell/agents", may: []string{"cell/gate", "cell/liveness", "cell/replica", "internal", "proto", "schedule", "shard"}, why: "agents' states go into the shard by the replica's queue"},
	{folder: "cell/reconcile", may: []string{"cell/agents", "cell/replica", "internal/telemetry", "proto", "shard"}, why: "what is compared is the replica's and the agents'; nothing of them knows who compares"},
	{folder: "cell/placement", may: []string{"cell/replica", "internal/fault", "proto", "schedule/placement", "shard"}, why: "the trees that the Placement API shows are the replica's rows: nothing of agents or of the gate decides about them"},
	{folder: "gateway", may: []string{"schedule", "internal", "proto"}, why: "gateway and cell meet only through proto"},
	{folder: "gateway/cellclient", may: []string{"internal/fault", "internal/rpc", "internal/suggest", "internal/telemetry", "proto", "schedule"}, why: "how a cell is called knows nothing of requests, of gates or of Nova's tables"},
	{folder: "gateway/rules", may: []string{"internal/config", "internal/expression", "internal/fault", "internal/limits", "internal/novarelease", "schedule"}, why: "what to decide by is a configuration: it calls nobody"},
	{folder: "gateway/decisions", may: []string{"gateway/cellclient", "internal/fault", "internal/rpc", "internal/telemetry", "internal/throttle", "internal/wire", "proto"}, why: "a decision is kept after the request that it is of: it knows no request"},
	{folder: "gateway/claims", may: []string{"gateway/cellclient", "internal/fault", "internal/telemetry", "internal/throttle", "internal/wire", "proto", "schedule"}, why: "what happens to a claim later knows no request, no gate and none of Nova's tables"},
	{folder: "gateway/selection", may: []string{"gateway/cellclient", "gateway/claims", "gateway/decisions", "gateway/rules", "internal/expression", "internal/fault", "internal/rpc", "internal/telemetry", "internal/throttle", "internal/wire", "proto", "schedule"}, why: "a request knows no gate and none of Nova's tables"},
	{folder: "gateway/capacity", may: []string{"gateway/cellclient", "gateway/selection", "internal/fault", "internal/suggest", "internal/wire", "proto", "schedule"}, why: "a question of capacity asks by the rules of a request, and claims nothing"},
	{folder: "gateway/admission", may: []string{"internal/fault"}, why: "who gets a place is decided without knowing what a call does"},
	{folder: "gateway/rest", may: []string{"internal/fault", "internal/health", "internal/ingress", "internal/rpc", "internal/security", "internal/suggest", "internal/telemetry", "proto"}, why: "REST is another form of the gRPC calls: it knows no cell and no gateway"},
	{folder: "gateway/console", may: []string{"internal/fault", "proto"}, why: "the console is a client of the API: its server knows files, and what changed"},
	{folder: "gateway/bus", may: []string{"internal/fault", "internal/health", "internal/keystone", "internal/limits", "internal/rpc", "internal/telemetry", "internal/throttle", "proto"}, why: "the message bus is another form of the gRPC calls: it knows no cell and no gateway"},
	{folder: "gateway/neutron", may: []string{"internal/fault", "internal/keystone", "schedule/nova"}, why: "which hosts reach a network is asked without knowing any host"},
	{folder: "gateway/placement", may: []string{"internal/fault", "internal/ingress", "internal/osnames", "schedule/placement"}, why: "the Placement API asks its Backend: it knows no cell and no gateway"},
	{folder: "gateway/placement/cells", may: []string{"gateway/cellclient", "gateway/placement", "internal/fault", "proto"}, why: "only the backend of the Placement API knows that there are cells"},
	{folder: "gateway/placement/mirror", may: []string{"gateway/placement", "internal/ingress"}, why: "a mirror copies between two Placements through their APIs: it knows no cell and no gateway"},
	{folder: "gateway/legacy/novadb", may: []string{"internal/fault", "schedule"}, why: "a reader of Nova's tables decides nothing, and knows neither cells nor the gateway"},
	{folder: "gateway/legacy/gatewatch", may: []string{"gateway/cellclient", "gateway/legacy/novadb", "internal/fault", "internal/telemetry", "proto", "schedule"}, why: "what a gateway does for a cell under upgrade knows no request of a caller"},
	{folder: "gateway/legacy/legacytest", may: []string{"internal/mariatest", "internal/pgtest", "internal/testlong"}, why: "Nova's tables for tests know no reader"},
	{folder: "gateway/legacy/scratch", may: []string{"gateway/legacy/novadb"}, why: "a server for dumps knows nothing of what is in them but tables' names"},
	{folder: "gateway/legacy/try", may: []string{"gateway/legacy/novadb", "gateway/placement/mirror", "gateway/rules", "gateway/selection", "schedule"}, why: "cellgate try reads, decides and refuses as a selection does: it knows no cell and writes nothing"},
	{folder: "gateway/legacy/importer", may: []string{"gateway/legacy/novadb", "internal/fault", "internal/rpc", "proto", "schedule"}, why: "an importer turns Nova's rows into an agent's reports; a cell is whoever takes them"},
	{folder: "agent", may: []string{"internal", "proto", "schedule"}, why: "an agent reaches its cell through the stream, never a store; it judges NUMA cells and devices by the filters of the core"},
	{folder: "systemtest", why: "it has tests only, of all parts together"},
	{folder: "loadtest", why: "what loads from outside has scripts and tests only"},
	{folder: "samples", may: []string{"proto"}, why: "samples are data"},
	{folder: "proto", why: "generated code knows nothing of the product"},
	{folder: "internal/fault", stdOnly: true, why: "the shard contract imports it"},
	{folder: "internal/expression", may: []string{"schedule"}, why: "a question about a host knows neither who asks nor who keeps hosts"},
	{folder: "internal/hoststate", may: []string{"internal/fault", "proto", "schedule"}, why: "what is asked of a state knows neither who says it nor who keeps it"},
	{folder: "internal/wire", may: []string{"internal/expression", "internal/fault", "internal/limits", "proto", "schedule"}, why: "a codec knows the core and the messages, not who sends them"},
	{folder: "internal/ingress", may: []string{"internal/fault"}, why: "bytes and connections know no service"},
	{folder: "internal/rpc", may: []string{"internal/fault", "internal/ingress", "internal/suggest"}, why: "transport knows no service"},
	{folder: "internal/bench", may: []string{"internal/fault", "proto"}, why: "a load client knows the public API only"},
	{folder: "internal/storebench", may: []string{"internal/fault", "shard"}, stdOnly: true, why: "a benchmark of claims knows the contract of a store only: who runs it opens the stores"},
	{folder: "internal/security", may: []string{"internal/fault", "internal/ingress", "internal/rpc", "internal/throttle"}, why: "who may call what is data about names; it knows no service"},
	{folder: "internal/config", may: []string{"internal/fault", "internal/limits", "internal/novarelease", "internal/python", "internal/suggest"}, why: "configuration is plain data"},
	{folder: "internal/celltest", may: []string{"cell", "internal/rpc", "proto", "shard", "shard/pebbleshard"}, why: "a cell for tests knows nothing of who calls it"},
	{folder: "internal/pgtest", may: []string{"internal/serverproc", "internal/testwait"}, why: "a database for tests knows nothing of who uses it"},
	{folder: "internal/mariatest", may: []string{"internal/serverproc", "internal/testwait"}, why: "a database for tests knows nothing of who uses it"},
	{folder: "internal/rabbittest", may: []string{"internal/serverproc", "internal/testwait"}, why: "a broker for tests knows nothing of who uses it"},
	{folder: "internal/serverproc", may: []string{"internal/testwait"}, stdOnly: true, why: "it knows processes, not what they serve"},
	{folder: "internal/testaddr", stdOnly: true, why: "it knows ports, not who uses them"},
	{folder: "internal/testlong", stdOnly: true, why: "the tests of all parts use it"},
	{folder: "internal/testwait", stdOnly: true, why: "it is a number"},
	{folder: "internal/norace", stdOnly: true, why: "the tests of the core use it"},
	{folder: "internal/pgproxy", why: "a proxy for tests knows the wire, not who speaks"},
	{folder: "internal/novarelease", may: []string{"internal/suggest"}, stdOnly: true, why: "what releases of Nova have is data"},
	{folder: "internal/novaconf", may: []string{"internal/limits", "internal/novarelease", "internal/python", "internal/suggest"}, stdOnly: true, why: "what Nova's files say is told apart from what cellgate does by it"},
	{folder: "internal/limits", stdOnly: true, why: "bounds are numbers"},
	{folder: "internal/osnames", stdOnly: true, why: "names are data"},
	{folder: "internal/python", stdOnly: true, why: "it knows values and texts, not whose they are; the core imports it"},
	{folder: "internal/suggest", stdOnly: true, why: "names are names"},
	{folder: "internal/keystone", why: "how a service of OpenStack is found knows nothing of what it is asked"},
	{folder: "internal/throttle", stdOnly: true, why: "how often a line is written knows nothing of what it says"},
	{folder: "internal/health", stdOnly: true, why: "saying how one is knows nothing of what one does"},
	{folder: "internal/lifecycle", may: []string{"internal/fault"}, why: "running things knows nothing of them"},
	{folder: "internal/telemetry", may: []string{"internal/fault", "internal/rpc", "schedule"}, why: "telemetry knows names, not the parts that use them"},
	{folder: "deploy", may: []string{"proto"}, why: "what is deployed beside the binary knows the public API only"},
	{folder: "cmd", may: []string{"agent", "cell", "gateway", "internal", "proto", "samples", "shard"}, why: "only cmd wires the parts and constructs backends; the core is reached through them"},
}

// reserved packages are those that only the named folders may import, whatever the rules allow.
var reserved = map[string]struct {
	folders []string
	why     string
}{
	"schedule/merge": {[]string{"gateway"}, "a cell answers for its own hosts, and the core decides about one table: only a gateway merges"},
}

// forbidden packages, everywhere except in test files: package → reason.
var forbidden = map[string]string{
	"testing":                          "product code carries no test helpers (shardtest is one)",
	"log":                              "slog is the logger",
	"github.com/golang/protobuf/proto": "google.golang.org/protobuf replaced it",
	"github.com/jackc/pgx/v4":          "pgx v5 is the driver",
}

// forbiddenExcept are packages that may import a forbidden package.
var forbiddenExcept = map[string]string{
	"cellgate/shard/shardtest":           "testing",
	"cellgate/internal/celltest":         "testing",
	"cellgate/internal/pgtest":           "testing",
	"cellgate/internal/mariatest":        "testing",
	"cellgate/internal/rabbittest":       "testing",
	"cellgate/internal/norace":           "testing",
	"cellgate/internal/serverproc":       "testing",
	"cellgate/internal/testaddr":         "testing",
	"cellgate/internal/testlong":         "testing",
	"cellgate/gateway/legacy/legacytest": "testing",
}

type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	GoFiles    []string
	Imports    []string
}

const module = "cellgate"

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 8 {
		t.Fatalf("go list found %d packages only", len(all))
	}
	return all
}

func below(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && first != module
}

func TestImportRules(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if path == "" {
			continue
		}
		var r *rule
		for i := range rules {
			if below(path, rules[i].folder) {
				r = &rules[i]
			}
		}
		if r == nil {
			t.Errorf("%s has no row in the import rules", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if why, ok := forbidden[imp]; ok && forbiddenExcept[p.ImportPath] != imp {
				t.Errorf("%s imports %s: %s", p.ImportPath, imp, why)
			}
			if !allowed(imp, r) {
				t.Errorf("%s imports %s: %s", p.ImportPath, imp, r.why)
			}
			if why := reservedFrom(imp, path); why != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, imp, why)
			}
		}
	}
}

func allowed(imp string, r *rule) bool {
	if standard(imp) {
		return true
	}
	if !below(imp, module) {
		return !r.stdOnly
	}
	path := strings.TrimPrefix(imp, module+"/")
	if below(path, r.folder) {
		return true
	}
	for _, m := range r.may {
		if below(path, m) {
			return true
		}
	}
	return false
}

// reservedFrom gives the reason why packages at path may not import imp; empty: it is not reserved from them.
func reservedFrom(imp, path string) string {
	r := reserved[strings.TrimPrefix(imp, module+"/")]
	if slices.ContainsFunc(r.folders, func(f string) bool { return below(path, f) }) {
		return ""
	}
	return r.why
}

// The rules are only worth something while they can fail.
func TestImportRulesReject(t *testing.T) {
	core, gate := &rules[0], &rule{folder: "gateway", may: []string{"schedule"}}
	for _, c := range []struct {
		imp  string
		r    *rule
		want bool
	}{
		{"sort", core, true},
		{"github.com/google/uuid", core, false},
		{"cellgate/shard", core, false},
		{"cellgate/schedule/nova", core, true},
		{"cellgate/cell", gate, false},
		{"cellgate/scheduler", gate, false},
		{"google.golang.org/grpc", gate, true},
	} {
		if got := allowed(c.imp, c.r); got != c.want {
			t.Errorf("%s in %s: allowed is %t", c.imp, c.r.folder, got)
		}
	}
	for path, want := range map[string]bool{"gateway/selection": false, "cell/proposals": true, "schedule": true, "schedule/nova": true} {
		if got := reservedFrom("cellgate/schedule/merge", path) != ""; got != want {
			t.Errorf("schedule/merge is reserved from %s: %t", path, got)
		}
	}
}

var impure = regexp.MustCompile(`\b(time\.(Now|Sleep|After|Tick|NewTimer|NewTicker|Since)|rand\.|os\.|net\.|go func|context\.)`)

func TestCoreIsPure(t *testing.T) {
	var files []string
	for _, folder := range []string{"schedule", "schedule/hardware", "schedule/merge", "schedule/placement", "internal/python"} {
		some, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(some) == 0 {
			t.Fatal("no files in", folder, err)
		}
		files = append(files, some...)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		for i, line := range strings.Split(read(t, f), "\n") {
			code, _, _ := strings.Cut(line, "//")
			if m := impure.FindString(code); m != "" {
				t.Errorf("%s:%d: the core does not use %s: time and randomness are inputs", f, i+1, m)
			}
		}
	}
}

// Packages that `make test` runs without the race detector start no goroutine.
func TestWhatRunsWithoutTheRaceDetectorStartsNoGoroutine(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	without := regexp.MustCompile(`(?m)^PURE := (\S+)$`).FindSubmatch(makefile)
	if without == nil {
		t.Fatal("Makefile does not say which package runs without the race detector")
	}
	files, err := filepath.Glob(filepath.Join(string(without[1]), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", without[1], len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s starts a goroutine, and make test runs its package without the race detector", name)
			}
			return true
		})
		for _, imported := range file.Imports {
			if path := strings.Trim(imported.Path.Value, `"`); path == "sync" || path == "golang.org/x/sync/errgroup" {
				t.Errorf("%s imports %s, and make test runs its package without the race detector", name, path)
			}
		}
	}
}

// A test that a package leaves out with the race detector would never run unless `make test` also
// ran the package without it.
func TestWhatIsLeftOutWithTheRaceDetectorRunsWithoutIt(t *testing.T) {
	line := regexp.MustCompile(`(?m)^LEFT_OUT := (.+)$`).FindStringSubmatch(read(t, "Makefile"))
	if line == nil {
		t.Fatal("Makefile does not say which packages leave tests out")
	}
	run := strings.Fields(line[1])
	var leave []string
	for _, p := range packages(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.Contains(read(t, f), "norace."+"LeaveOut(") {
				leave = append(leave, strings.TrimPrefix(p.ImportPath, module+"/"))
			}
		}
	}
	slices.Sort(run)
	slices.Sort(leave)
	if !slices.Equal(run, leave) {
		t.Errorf("make test runs what is left out of %v, and tests of %v are", run, leave)
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		if below(p.ImportPath, module+"/proto") || len(p.GoFiles) == 0 {
			continue
		}
		found := 0
		for _, f := range p.GoFiles {
			if regexp.MustCompile(`(?m)^// (Package|Command) [^\n]+\n(//[^\n]*\n)*package `).MatchString(read(t, filepath.Join(p.Dir, f))) {
				found++
				if f != "doc.go" && f != "main.go" {
					t.Errorf("%s: the package comment stands in %s, not in doc.go", p.ImportPath, f)
				}
			}
		}
		if found != 1 {
			t.Errorf("%s has %d package comments; want one, in doc.go", p.ImportPath, found)
		}
	}
}

var foreignFolders = []string{"/home/", "/work/", "/root/", "/Users/"}

// foreignPath matches absolute paths of somebody's machine.
var foreignPath = regexp.MustCompile(`(^|[\s"'(=])/(home|work|root|Users)/[a-z]`)

func TestTrackedFilesStandAlone(t *testing.T) {
	out, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		t.Skip("not a git checkout: tracked files are not known")
	}
	for _, f := range strings.Fields(string(out)) {
		switch filepath.Ext(f) {
		case ".go", ".md", ".yaml", ".yml", ".mod", ".proto", ".sh", "":
		default:
			continue
		}
		if f == "arch_test.go" {
			continue
		}
		data, err := os.ReadFile(f)
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		virtual := strings.Contains(string(data), `"testing/synctest"`)
		for i, line := range strings.Split(string(data), "\n") {
			// The expression is slow: most lines have no folder of the kind.
			if foreign := func(folder string) bool { return strings.Contains(line, folder) }; slices.ContainsFunc(foreignFolders, foreign) && foreignPath.MatchString(line) {
				t.Errorf("%s:%d names a path of one machine: %s", f, i+1, strings.TrimSpace(line))
			}
			if strings.HasSuffix(f, "_test.go") && strings.Contains(line, "time."+"Sleep(") && !virtual {
				t.Errorf("%s:%d: tests wait for signals, or in the virtual time of testing/synctest", f, i+1)
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
