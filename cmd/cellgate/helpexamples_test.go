package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/norace"
	"cellgate/internal/pgtest"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// helpSystem is what the examples of the help texts run against: a small `dev`, the three cells of
// deploy/examples, an agent of this machine, and databases. The working directory is new and has a
// copy of deploy/examples.
type helpSystem struct {
	*testing.T
	api string   // gRPC address of dev
	env []string // as operators would set it: free ports, and paths that a test may write to
	// substitutions replace values that an example cannot know. They apply in this order.
	substitutions []*substitution
	placed        *cellgatev1.SelectDestinationsResponse // by the current line
}

// substitution replaces a text of an example. value is called when a line has the text.
type substitution struct {
	text  string
	value func() string
	used  bool
}

const (
	uuidForm    = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`
	claimForm   = `\b[0-9A-Z]{26}\b`
	addressForm = `127\.0\.0\.1:\d+`
)

// inExamples matches values that an example must not invent: they are substituted or in asWritten.
var inExamples = regexp.MustCompile(uuidForm + "|" + claimForm + "|" + addressForm)

// asWritten are the values that hold in the fleet of `make run` and in deploy/examples, or
// that a caller chooses.
var asWritten = map[string]string{
	"710c6178-bcf9-40bc-9303-112cd17ef687": "cell1-r01-h001",
	"c0000000-0000-4000-8000-000000000001": "cell1",
	"5d0f1a9e-5c1c-4f3c-9d59-1f0a0c6a7b11": "a server group",
	"22222222-2222-4222-8222-222222222222": "the consumer that a claim is transferred to",
}

// runsLast undoes what other examples do.
const runsLast = "cellgate hosts enable "

// promised are the statuses of examples that do not end with 0.
var promised = map[string]int{
	// There is no Placement.
	"cellgate placement copy --from http://placement.example:8778 --to http://gateway.example:8778/cells/cell1 --noauth --dry-run": exitUnreachable,
	"cellgate placement copy --from http://placement.example:8778 --to http://gateway.example:8778 --noauth -o json":               exitUnreachable,
	"cellgate placement tap --from http://placement.example:8778 --to http://gateway.example:8778 --noauth":                        exitUnreachable,
	// The purpose is to report that hosts without an agent block the upgrade.
	"cellgate doctor upgrade --config /etc/cellgate/gateway.yaml --cell cell1 --nova-conf deploy/examples/nova.conf -o json": exitRefused,
	// The host stays because its agent still reports, as every agent of `make run` does.
	`cellgate hosts delete 710c6178-bcf9-40bc-9303-112cd17ef687 --reason "scrapped"`: exitRefused,
}

// serving is the line that a command prints or logs when it serves.
var serving = []struct {
	command, unless, line string
	inLog                 bool
}{
	{command: "dev", unless: "--once", line: "Serving until interrupted"},
	{command: "gateway", line: `msg="gateway starts" grpc=(\S+)`, inLog: true},
	{command: "cell", line: `msg="cell starts"`, inLog: true},
	{command: "agent", unless: "--print|claims", line: `msg="every host is registered"`, inLog: true},
}

// Every line of every command's Example runs as written, except for the substitutions. It ends with
// status 0 and leaves the system as healthy as before.
func TestHelpExamples_EveryLine_RunsAndHarmsNothing(t *testing.T) {
	norace.Skip(t, "it starts a process for each example, and looks at what they answer")
	onLinux(t)
	s := newHelpSystem(t)
	defer func() {
		if t.Failed() {
			health, _ := s.health()
			t.Log(health)
		}
	}()
	inService := func() bool {
		_, good := s.health()
		return good
	}
	becomes(t, "the system is not in service before the examples", inService)
	var examples []string
	walk(newRoot(terminal{in: strings.NewReader(""), out: io.Discard, err: io.Discard}), func(cmd *cobra.Command) {
		examples = append(examples, strings.Split(strings.TrimSpace(cmd.Example), "\n")...)
	})
	last := func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), runsLast) }
	undo := slices.DeleteFunc(slices.Clone(examples), func(line string) bool { return !last(line) })
	examples = append(slices.DeleteFunc(examples, last), undo...)
	if len(examples) < 60 {
		t.Errorf("%d examples, want 60 or more", len(examples))
	}
	for _, line := range examples {
		s.example(strings.TrimSpace(line))
	}
	for _, sub := range s.substitutions {
		if !sub.used {
			t.Errorf("no example has %q: its substitution is to be deleted", sub.text)
		}
	}
	becomes(t, "the examples left a part of the system out of service", inService)
}

// walk visits all commands that have an Example.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	if cmd.Name() == "help" || cmd.Name() == "completion" {
		return
	}
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, visit)
	}
}

func newHelpSystem(t *testing.T) *helpSystem {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for name, text := range map[string]string{
		"password": "none is asked for\n",
		"request":  `{"instance_uuids": ["` + uuid.NewString() + `"], "request_spec": {"flavor": {"vcpus": 1, "memory_mb": 512, "root_gb": 1}}}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &helpSystem{T: t, env: []string{
		asCellgate + "=1", // of bench --self, which starts a process
		"CELLGATE_GATEWAY_GRPC=127.0.0.1:0", "CELLGATE_GATEWAY_HTTP=127.0.0.1:0", "CELLGATE_GATEWAY_DRAIN_DELAY=0s",
		"CELLGATE_CELL_GRPC=127.0.0.1:0", "CELLGATE_CELL_METRICS=127.0.0.1:0", "CELLGATE_CELL_DRAIN_DELAY=0s",
		"CELLGATE_DEV_GRPC=127.0.0.1:0", "CELLGATE_DEV_HTTP=127.0.0.1:0", "CELLGATE_DEV_CELL_BASE_PORT=0",
		"CELLGATE_AGENT_METRICS=127.0.0.1:0", "CELLGATE_AGENT_HOST_STATE_DIR=" + dir, "CELLGATE_AGENT_HOST_DISK_PATH=" + dir, "CELLGATE_AGENT_HOST_RESERVED_HOST_MEMORY_MB=1",
	}}
	dev := launchIn(t, s.env, false, "dev", "--cells", "3", "--hosts", "20", "--data", "running", "--log-level", "warn")
	s.api = dev.await(`gRPC +(\S+)`)[1]
	dev.await("Serving until interrupted")
	s.env = append(s.env, "CELLGATE_ADDR="+s.api)
	s.substitute()
	return s
}

// substitute declares the substitutions, and starts the processes that they refer to.
func (s *helpSystem) substitute() {
	t := s.T
	add := func(text string, value func() string) {
		s.substitutions = append(s.substitutions, &substitution{text: text, value: value})
	}
	is := func(value string) func() string { return func() string { return value } }
	selected := func() *cellgatev1.Destinations { return s.place().GetDestinations()[0] }
	add("11111111-1111-4111-8111-111111111111", func() string { return selected().GetInstanceUuid() })
	add("cell1.01JAB2C3D4E5F6G7H8J9KMNPQR", func() string { return s.place().GetDecisionId() })
	add("01JAB2C3D4E5F6G7H8J9KMNPQR", func() string { return selected().GetSelected().GetClaimId() })
	add("8d75c242-e8ae-4000-b1b2-e5da60bc781a", func() string { return selected().GetAlternates()[0].GetComputeNodeUuid() })
	add("request.json", is("request"))
	add("127.0.0.1:9090", is(s.api))

	// The cells of deploy/examples, whose addresses the shipped files name.
	var cellAddrs []string
	for n := 1; n <= 3; n++ {
		cell := launchIn(t, s.env, true, "cell", "--config", fmt.Sprintf("deploy/examples/cell%d.yaml", n), "--data", fmt.Sprintf("shipped/cell%d", n))
		cellAddrs = append(cellAddrs, fmt.Sprintf("127.0.0.1:910%d", n), cell.await(`msg="cell starts".* grpc=(\S+)`)[1])
	}
	add(cellAddrs[0], is(cellAddrs[1]))
	add(cellAddrs[2], is(cellAddrs[3]))
	for _, name := range []string{"gateway", "agent"} {
		file := filepath.Join("deploy", "examples", name+".yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.NewReplacer(cellAddrs...).Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	// Databases: one for a shard, those of dev, and Nova's, which /etc/cellgate/gateway.yaml names.
	srv := pgtest.Start(t)
	add("postgres://cellgate@127.0.0.1:5432/cell1", is(srv.NewDatabase(t)))
	add("postgres://postgres@127.0.0.1:5432/ ", is(srv.URL("")+" "))
	add("postgres://postgres@127.0.0.1:5432/cellgate", is(srv.URL("examples")))
	t.Cleanup(func() {
		for n := 1; n <= 3; n++ {
			srv.Exec(t, fmt.Sprintf("DROP DATABASE IF EXISTS examples_cell%d WITH (FORCE)", n))
		}
	})
	add("/run/secrets/cell1", is("password"))
	upgraded := launchIn(t, s.env, true, "cell", "--name", "cell1", "--uuid", novaCellUUID, "--data", "shipped/upgraded")
	nova := newNovaCell(t, legacytest.PostgreSQL, 5, upgraded.await(`msg="cell starts".* grpc=(\S+)`)[1])
	createTrialTables(nova)
	add("postgres://nova@127.0.0.1:5432/nova_cell1", is(nova.cell.URL))
	add("postgres://nova@127.0.0.1:5432/nova_api", is(nova.api.URL))
	add("/etc/cellgate/gateway.yaml", func() string {
		// Rows of services that fell silent are not imported.
		nova.cell.Exec(t, "UPDATE services SET last_seen_up = '"+nova.cell.Now(t).Format(time.DateTime)+"'")
		return nova.config
	})

	// Small numbers test as much as large ones.
	add("--hosts 1000", is("--hosts 20"))
	add("--cells 10", is("--cells 1"))
	add("--callers 1,8,64", is("--callers 1,2"))
	add("--callers 64", is("--callers 2"))
	add("--duration 3s", is("--duration 20ms"))
	add("--duration 10s", is("--duration 200ms --warmup 0s --shape same"))

	// An agent of this machine serves its claims, in addition to those of the examples.
	socket := filepath.Join(t.TempDir(), "a.sock")
	add("/run/cellgate-agent/claims.sock", is(socket))
	host := launchIn(t, s.env, true, "agent", "--config", "deploy/examples/agent.yaml", "--cell", "cell2", "--replica", cellAddrs[3], "--state-dir", "state", "--socket", socket)
	host.await(`msg="every host is registered"`)
}

// place selects an instance, once per line.
func (s *helpSystem) place() *cellgatev1.SelectDestinationsResponse {
	if s.placed == nil {
		s.placed = &cellgatev1.SelectDestinationsResponse{}
		cellgate(s.T, s.api, exitDone, s.placed, "select", "--cell", "cell1", "--alternates", "2")
		becomes(s.T, "the decision is not there", func() bool {
			_, _, status := typed(s.Context(), "", "decisions", "get", s.placed.GetDecisionId(), "--addr", s.api)
			return status == exitDone
		})
	}
	return s.placed
}

var piped = regexp.MustCompile(`^echo '([^']*)' \| (cellgate .*)$`)

// example runs a line until it ends, or until it serves.
func (s *helpSystem) example(line string) {
	t := s.T
	t.Helper()
	s.placed = nil
	command, made := line, []string{}
	for _, sub := range s.substitutions {
		if strings.Contains(command, sub.text) {
			sub.used = true
			value := sub.value()
			command, made = strings.ReplaceAll(command, sub.text, value), append(made, value)
		}
	}
	for _, found := range inExamples.FindAllString(command, -1) {
		if asWritten[found] == "" && !slices.ContainsFunc(made, func(v string) bool { return strings.Contains(v, found) }) {
			t.Errorf("%s: %s is no value of `make run` and has no substitution", line, found)
		}
	}
	stdin := ""
	if m := piped.FindStringSubmatch(command); m != nil {
		stdin, command = m[1], m[2]
	}
	// Words are separated by blanks, or in double quotes, as in a shell.
	words := csv.NewReader(strings.NewReader(command))
	words.Comma = ' '
	args, err := words.Read()
	if err != nil || args[0] != "cellgate" || strings.ContainsAny(command, "'$|<>&;") && !strings.Contains(command, `"`) {
		t.Errorf("%s is no command line that this test reads: %v", line, err)
		return
	}
	args = args[1:]
	for _, w := range serving {
		if args[0] == w.command && (w.unless == "" || !regexp.MustCompile(w.unless).MatchString(command)) {
			p := launchIn(t, s.env, w.inLog, args...)
			if m := p.await(w.line); len(m) > 1 {
				becomes(t, line+": it does not answer", func() bool {
					_, _, status := typed(t.Context(), "", "cells", "--addr", m[1])
					return status == exitDone
				})
			}
			p.cancel()
			var last []string
			for line, ok := p.lines.next(t.Context()); ok; line, ok = p.lines.next(t.Context()) {
				last = append(last, line)
			}
			if status := <-p.status; status != exitDone {
				t.Errorf("%s\nran as: %s\nwas stopped, and ended with status %d:\n%s\n%s", line, command, status, strings.Join(last, "\n"), p.log)
			}
			return
		}
	}
	var out, stderr strings.Builder
	status := run(t.Context(), args, terminal{in: strings.NewReader(stdin), out: &out, err: &stderr, env: s.env})
	if status != promised[line] {
		t.Errorf("%s\nran as: %s\nended with status %d, want %d: %s%s", line, command, status, promised[line], &out, &stderr)
	}
}

// health returns how many of dev's hosts are in service. good is false if a cell or host is not.
func (s *helpSystem) health() (health string, good bool) {
	good = true
	var cells cellgatev1.ListCellsResponse
	cellgate(s.T, s.api, exitDone, &cells, "cells")
	for _, c := range cells.GetCells() {
		g := c.GetGate()
		native := g.GetState() == cellgatev1.Gate_NATIVE || g.GetState() == cellgatev1.Gate_STATE_UNSPECIFIED // of a cell without a gate
		good = good && c.GetAvailable() && c.GetEnabled() && native && g.GetPin() == cellgatev1.Gate_STATE_UNSPECIFIED && c.GetHosts() == 20
		health += fmt.Sprintf("%s: available %v, enabled %v, gate %s, pinned at %s, %d of %d hosts up\n", c.GetCell(), c.GetAvailable(), c.GetEnabled(), g.GetState(), g.GetPin(), c.GetHostsUp(), c.GetHosts())
	}
	var hosts cellgatev1.ListHostsResponse
	cellgate(s.T, s.api, exitDone, &hosts, "hosts", "--limit", "0")
	for _, h := range hosts.GetHosts() {
		if state := hostState(h); state != "up" {
			good = false
			health += fmt.Sprintf("%s is %s\n", h.GetServiceHost(), state)
		}
	}
	return health, good && len(cells.GetCells()) == 3 && len(hosts.GetHosts()) == 60
}
