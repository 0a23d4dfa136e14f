package config

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cellgate/internal/limits"

	"cellgate/internal/fault"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// example loads one of the shipped files.
func example(t *testing.T, name string) Config {
	t.Helper()
	c, err := Load(strings.TrimRight(name, "0123456789"), Source{File: exampleFile(name)})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

func exampleFile(name string) string {
	return filepath.Join("..", "..", "deploy", "examples", name+".yaml")
}

// exampleNames returns the names of all shipped files.
func exampleNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(exampleFile("*"))
	if err != nil || len(files) != 8 {
		t.Fatalf("%v, %v: want a gateway, three cells and simulated agents for each, and the agent of a real host", files, err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".yaml")
	}
	return files
}

// A key in a shipped file counts as set by the operator. It must not repeat a default, which would
// contradict nova.conf.
// Kubernetes tells every pod of a service by variables that begin with the service's name.
func TestLoad_VariablesOfAKubernetesService_AreLeftAlone(t *testing.T) {
	env := []string{"CELLGATE_GATEWAY_CELLS=a=h:1"}
	for _, service := range []string{"CELLGATE_GATEWAY", "CELLGATE_CELL_A"} {
		for _, v := range []string{"_SERVICE_HOST", "_SERVICE_PORT", "_SERVICE_PORT_GRPC", "_PORT", "_PORT_9090_TCP", "_PORT_9090_TCP_PROTO", "_PORT_9090_TCP_PORT", "_PORT_9090_TCP_ADDR"} {
			env = append(env, service+v+"=10.0.0.1")
		}
	}
	if _, err := Load("gateway", Source{Env: env}); err != nil {
		t.Error(err)
	}
}

func TestShippedExamples_EveryKey_IsNoDefault(t *testing.T) {
	for _, name := range exampleNames(t) {
		section := strings.TrimRight(name, "0123456789")
		c, from, err := LoadWithOrigins(section, Source{File: exampleFile(name)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, k := range slices.Concat(Keys(section), Keys("log"), Keys("telemetry")) {
			own, standard := Value(c, k.Path), Value(Default(), k.Path)
			// The gateway's file names this address, so it is set explicitly.
			if from[k.Path] != "" && k.Path != "cell.grpc" && reflect.DeepEqual(own.Interface(), standard.Interface()) || from[k.Path] != "" && own.Kind() == reflect.Slice && own.Len() == 0 {
				t.Errorf("%s: %s says the default, %v", from[k.Path], k.Path, standard)
			}
		}
		text, err := os.ReadFile(exampleFile(name))
		if err != nil {
			t.Fatal(err)
		}
		if run := "bin/cellgate " + section + " --config deploy/examples/" + name + ".yaml\n"; !strings.Contains(string(text), run) {
			t.Errorf("%s does not say how to run it: %s", name, run)
		}
	}
}

// The files are one system: the gateway's cells match the cells' files, and each cell has agents.
func TestShippedExamplesAreOneSystem(t *testing.T) {
	g := example(t, "gateway").Gateway
	if len(g.Cells) != 3 {
		t.Fatalf("the gateway has %d cells, want 3", len(g.Cells))
	}
	taken := map[string]string{g.HTTP: "gateway.http", g.GRPC: "gateway.grpc"}
	for i, want := range g.Cells {
		c, a := example(t, fmt.Sprintf("cell%d", i+1)).Cell, example(t, fmt.Sprintf("agent%d", i+1)).Agent
		got := GatewayCell{Name: c.Name, UUID: c.UUID, Replicas: []string{c.GRPC}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the gateway's cell is %+v, the cell's file says %+v", want, got)
		}
		if a.Cell != c.Name || !slices.Equal(a.Replicas, want.Replicas) {
			t.Errorf("the agents of %s report to %s at %v", c.Name, a.Cell, a.Replicas)
		}
		for _, unique := range []string{c.GRPC, c.Data} {
			if other, twice := taken[unique]; twice {
				t.Errorf("%s of %s is that of %s too", unique, c.Name, other)
			}
			taken[unique] = c.Name
		}
		if filepath.IsAbs(c.Data) {
			t.Errorf("%s needs %s, which is not everybody's to write", c.Name, c.Data)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	for addr, says := range map[string]string{
		"127.0.0.1:9090": "", "localhost:1": "", "[::1]:65535": "", "gw.example.org:9090": "",
		"": "write it as host:port", "host": "write it as host:port", "bad host:1": "write it as host:port", ":9090": "has no host",
		"h:xx": "no port between 1 and 65535", "h:": "no port", "h:0": "no port", "h:70000": "no port", "h:-1": "no port",
	} {
		err := CheckAddress(addr)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", addr, err, says)
		}
	}
}

func TestSourcesRiseFromFileOverEnvironmentToFlags(t *testing.T) {
	file := write(t, "gateway:\n  http: 127.0.0.1:1\n  grpc: 127.0.0.1:2\n  claim_budget: 3s\n  max_in_flight: 9\n"+
		"  cells: [{name: a, uuid: c0000000-0000-4000-8000-000000000001, replicas: [h:1]}]\n")
	c, err := Load("gateway", Source{
		File: file,
		Env: []string{
			"CELLGATE_GATEWAY_GRPC=127.0.0.1:22", "CELLGATE_GATEWAY_CLAIM_BUDGET=4s",
			"CELLGATE_GATEWAY_CELLS=b=c0000000-0000-4000-8000-000000000002@h:2,h:3;c=c0000000-0000-4000-8000-000000000003@h:4",
			"CELLGATE_GATEWAY_FILTER_EXPRESSION=facts.rack in ['a', 'b'] // c; d", "CELLGATE_ADDR=elsewhere:1", "CELLGATE_CELL_NAME=notmine", "HOME=/",
		},
		Flags: map[string]string{"gateway.claim_budget": "5s", "gateway.weighers": "ram=-1.5;cpu=2", "log.level": "debug", "gateway.weigh_expression": "host.free.VCPU", "gateway.weigh_multiplier": "-2.5"},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := c.Gateway
	if g.HTTP != "127.0.0.1:1" || g.GRPC != "127.0.0.1:22" || g.ClaimBudget != 5*time.Second || g.MaxInFlight != 9 ||
		g.ProposeBudget != Default().Gateway.ProposeBudget || c.Log.Level != "debug" {
		t.Errorf("got %+v, log %+v", g, c.Log)
	}
	if g.FilterExpression != "facts.rack in ['a', 'b'] // c; d" || g.WeighExpression != "host.free.VCPU" || g.WeighMultiplier != -2.5 {
		t.Errorf("expressions are %q, %q times %v", g.FilterExpression, g.WeighExpression, g.WeighMultiplier)
	}
	wantCells := []GatewayCell{
		{Name: "b", UUID: "c0000000-0000-4000-8000-000000000002", Replicas: []string{"h:2", "h:3"}},
		{Name: "c", UUID: "c0000000-0000-4000-8000-000000000003", Replicas: []string{"h:4"}},
	}
	if !reflect.DeepEqual(g.Cells, wantCells) {
		t.Errorf("cells = %+v, want %+v", g.Cells, wantCells)
	}
	if want := []Weigher{{"ram", -1.5}, {"cpu", 2}}; !reflect.DeepEqual(g.Weighers, want) {
		t.Errorf("weighers = %+v, want %+v", g.Weighers, want)
	}
}

func TestProblemsNameTheirPlaceAndTheNearestKey(t *testing.T) {
	const head = "gateway:\n  cells: [{name: a, uuid: c0000000-0000-4000-8000-000000000001, replicas: [h:1]}]\n"
	for name, c := range map[string]struct {
		section, file string
		env           []string
		flags         map[string]string
		want          []string
	}{
		"unknown key":         {file: head + "  propose_bugdet: 1s\n", want: []string{"c.yaml:3: unknown key gateway.propose_bugdet; did you mean gateway.propose_budget?"}},
		"unknown section":     {file: head + "gatway: {}\n", want: []string{"c.yaml:3: unknown key gatway; did you mean gateway?"}},
		"other section's":     {file: head + "dev:\n  sed: 1\n", want: []string{"c.yaml:4: unknown key dev.sed; did you mean dev.seed?"}},
		"alike by section":    {section: "cell", file: "cell:\n  name: c\n  claim_ttl: 300s\n  uuid: c0000000-0000-4000-8000-000000000001\n  data: d\n", want: []string{"c.yaml:3: unknown key cell.claim_ttl; known are cell.name, "}},
		"nothing alike":       {file: head + "xyzzyx: 1\n", want: []string{"c.yaml:3: unknown key xyzzyx; known are log, telemetry, gateway, cell, agent, dev"}},
		"key of an entry":     {file: head + "  weighers: [{nam: ram}]\n", want: []string{"c.yaml:3: unknown key gateway.weighers[0].nam; did you mean gateway.weighers[0].name?", "c.yaml:3: gateway.weighers[0].name: must be set"}},
		"twice":               {file: head + "  http: 127.0.0.1:1\n  http: 127.0.0.1:2\n", want: []string{"c.yaml:4: gateway.http: is set twice; first in line 3"}},
		"duration":            {file: head + "  claim_budget: 5\n", want: []string{`c.yaml:3: gateway.claim_budget: "5" is not a duration; write it like 250ms, 10s or 5m`}},
		"negative":            {file: head + "  claim_budget: -5s\n", want: []string{"c.yaml:3: gateway.claim_budget: -5s is not above 0"}},
		"number":              {file: head + "  max_in_flight: many\n", want: []string{`c.yaml:3: gateway.max_in_flight: "many" is not a whole number`}},
		"list for value":      {file: head + "  http: [a]\n", want: []string{"c.yaml:3: gateway.http: must be a single value, not a list"}},
		"value for list":      {file: head + "  filters: a\n", want: []string{"c.yaml:3: gateway.filters: must be a list, not a single value"}},
		"not a mapping":       {file: "- a\n", want: []string{"c.yaml:1: the file: must be a mapping", "gateway.cells: a gateway needs at least one cell"}},
		"not YAML":            {file: "a: [\n", want: []string{"c.yaml: yaml: line 1"}},
		"two documents":       {file: head + "---\na: 1\n", want: []string{"more than one YAML document"}},
		"loopback":            {file: head + "  grpc: 0.0.0.0:9090\n", want: []string{"c.yaml:3: gateway.grpc: 0.0.0.0:9090 is not a loopback address: set gateway.tls.cert and gateway.tls.key for TLS, and set gateway.tls.client_ca or gateway.tls.tokens to know the callers; or give --insecure"}},
		"loopback, all hosts": {file: head + "  http: ':9999'\n", want: []string{"not a loopback address"}},
		"address":             {file: head, env: []string{"CELLGATE_GATEWAY_HTTP=8080"}, want: []string{`CELLGATE_GATEWAY_HTTP: gateway.http: "8080" is not an address; write it as host:port`}},
		"port":                {file: head, flags: map[string]string{"gateway.http": "localhost:70000"}, want: []string{`--http: gateway.http: "localhost:70000" has no port between 0 and 65535`}},
		"variable":            {file: head, env: []string{"CELLGATE_GATEWAY_GPRC=x"}, want: []string{"unknown environment variable CELLGATE_GATEWAY_GPRC; did you mean CELLGATE_GATEWAY_GRPC?"}},
		"other's variable":    {file: head, env: []string{"CELLGATE_CELL_DTA=x", "CELLGATE_CELL_DATA=fine"}, want: []string{"unknown environment variable CELLGATE_CELL_DTA; did you mean CELLGATE_CELL_DATA?"}},
		"port, no service":    {file: head, env: []string{"CELLGATE_GATEWAY_GRPC_PORT=9090", "CELLGATE_CELL_SERVICE_HOST=10.0.0.1"}, want: []string{"unknown environment variable CELLGATE_GATEWAY_GRPC_PORT"}},
		"no section's":        {file: head, env: []string{"CELLGATE_GATWAY_HTTP=x", "CELLGATE_ADDR=h:1", "CELLGATE_LONG=1"}, want: []string{"unknown environment variable CELLGATE_GATWAY_HTTP; did you mean CELLGATE_GATEWAY_HTTP?"}},
		"same port":           {file: head + "  http: 127.0.0.1:9090\n", want: []string{"gateway.grpc: 127.0.0.1:9090 is the port of gateway.http (127.0.0.1:9090) too"}},
		"same address":        {flags: map[string]string{"gateway.cells": "a=h:1;b=h:2,h:1"}, want: []string{`--cell: gateway.cells[1].replicas[1]: "h:1" is that of cells[0] already`}},
		"drain":               {file: head + "  drain_delay: 2m\n", want: []string{"c.yaml:3: gateway.drain_delay: 2m0s is not between 0s and 1m"}},
		"secret as value": {
			file: head + "  cell_tls: {ca: system, token_file: cellgate_abc}\n", flags: map[string]string{"gateway.tls.cert": "c", "gateway.tls.key": "-----BEGIN EC PRIVATE KEY-----"},
			want: []string{"c.yaml:3: gateway.cell_tls.token_file: is what a file holds", "--tls-key: gateway.tls.key: is what a file holds, not a path"},
		},
		"cell flag":     {flags: map[string]string{"gateway.cells": "a@b"}, want: []string{`--cell: gateway.cells: "a@b" is not a cell`, "at least one cell"}},
		"entry by flag": {flags: map[string]string{"gateway.cells": "a=b@h:1"}, want: []string{`--cell: gateway.cells[0].uuid: "b" is not a uuid`}},
		"ingress": {
			file: head + "  ingress: {max_mib: 8, max_caller_mib: 16, max_connections: 1}\n", flags: map[string]string{},
			want: []string{"c.yaml:3: gateway.ingress.max_mib: 8 is below max_caller_mib (16)", "c.yaml:3: gateway.ingress.max_connections: 1 is below 64"},
		},
		"breaker": {
			file: head + "  breaker: {failures: 0, open_for: 0s}\n", flags: map[string]string{"gateway.breaker.probe_budget": "-1s"},
			want: []string{"c.yaml:3: gateway.breaker.failures: 0 is below 1", "gateway.breaker.open_for: 0s is not above 0", "--breaker-probe-budget: gateway.breaker.probe_budget: -1s is not above 0"},
		},
		"same cell twice": {
			file: "gateway:\n  cells:\n    - &a {name: a, uuid: c0000000-0000-4000-8000-000000000001, replicas: [h:1]}\n    - *a\n",
			want: []string{`gateway.cells[1].name: "a" is that of cells[0] already`, "gateway.cells[1].uuid", `gateway.cells[1].replicas[0]: "h:1" is that of cells[0] already`},
		},
		"several at once": {
			file: head + "  http: x\n  nope_nope: 1\nlog: {level: loud}\n", flags: map[string]string{"gateway.max_in_flight": "0"},
			want: []string{"c.yaml:4: unknown key gateway.nope_nope", `c.yaml:5: log.level: "loud" is none of`, "c.yaml:3: gateway.http", "--max-in-flight: gateway.max_in_flight: 0 is below 1"},
		},
		"legacy": {
			file: "gateway:\n  cells: [{name: a, replicas: [h:1]}, {name: b}, {name: c, uuid: c0000000-0000-4000-8000-000000000001, replicas: [h:2]}, {name: d}]\n" +
				"  legacy:\n    - {cell: nope, database: 'mysql://u@127.0.0.1/nova', refresh: 1m}\n    - {cell: a, database: 'mysql://u:secret@127.0.0.1/nova', cpu_allocation_ratio: -1}\n" +
				"    - {cell: b, database: 'mysql://u@127.0.0.1/novab', legacy_only: true}\n    - {cell: c, database: 'oracle://u@127.0.0.1/nova', legacy_only: true, service_down_time: 8s}\n",
			want: []string{
				`c.yaml:4: gateway.legacy[0].cell: "nope" is none of gateway.cells`, "gateway.legacy[0].refresh: 1m0s is not between 100ms and 5s",
				"gateway.legacy[1].database: has a password", "gateway.legacy[1].cpu_allocation_ratio: -1 is below 0",
				"gateway.cells[1].uuid: must be set for a cell that is legacy_only", "gateway.cells[2].replicas: a cell that is legacy_only has none",
				"gateway.legacy[3].database: must begin with mysql:// or postgres://", "gateway.legacy[3].service_down_time: 8s is below five times refresh (2s)",
				"gateway.cells[3].replicas: a cell needs the address of a replica",
			},
		},
		"cell needs": {section: "cell", want: []string{"cell.name: must be set", `cell.uuid: "" is not a uuid`, "cell.data: must be set"}},
		"cell beats": {
			section: "cell", flags: map[string]string{"cell.name": "a", "cell.uuid": "c0000000-0000-4000-8000-000000000001", "cell.data": "d", "cell.service_down_time": "5s"},
			want: []string{"--service-down-time: cell.service_down_time: 5s is not longer than heartbeat_every (10s)"},
		},
		"cell that cannot work": {
			section: "cell", flags: map[string]string{
				"cell.name": "a", "cell.uuid": "c0000000-0000-4000-8000-000000000001", "cell.data": "d",
				"cell.max_batch": "1", "cell.max_queue": "255", "cell.lease_scan": "100h", "cell.heartbeat_every": "1ns", "cell.service_down_time": "1ns",
				"cell.reconcile_interval": "1ms", "cell.reconcile_grace": "2h",
			},
			want: []string{
				"--max-batch: cell.max_batch: 1 is below 2", "--max-queue: cell.max_queue: 255 is below 256", "--lease-scan: cell.lease_scan: 100h0m0s is not between 10ms and 1m0s",
				"--heartbeat-every: cell.heartbeat_every: 1ns is not between 100ms and 1h0m0s", "--service-down-time: cell.service_down_time: 1ns is not longer than heartbeat_every (1ns)",
				"--reconcile-interval: cell.reconcile_interval: 1ms is not between 100ms and 1h0m0s", "cell.reconcile_release: 1h0m0s is shorter than reconcile_grace (2h0m0s)",
			},
		},
		"budgets above the deadline": {
			file: head + "  max_deadline: 1s\n", flags: map[string]string{"gateway.claim_budget": "9s", "gateway.propose_budget": "1500ms"},
			want: []string{"--claim-budget: gateway.claim_budget: 9s is longer than max_deadline (1s)", "--propose-budget: gateway.propose_budget: 1.5s is longer than max_deadline (1s)"},
		},
		"agent needs": {section: "agent", flags: map[string]string{"agent.hosts": "-1"}, want: []string{"agent.cell: must be set", "--hosts: agent.hosts: -1 is below 0", "agent.replicas: an agent needs"}},
		"agent of a host": {
			section: "agent", file: "agent:\n  cell: c\n  replicas: [h:1]\n  host:\n    state_dir: ''\n    cpu_allocation_ratio: 0\n    reserved_host_cpus: -1\n    poll_every: 1ms\n    virt_type: xen\n" +
				"    aggregates: [{uuid: x, name: a, metadata: [y]}]\n    pci_devices: [{vendor_id: 8086, tags: [a=b, a=c]}]\n    disabled_reason: why\n    reserved_huge_pages: [{node: x}]\n    instances: y\n",
			want: []string{
				"c.yaml:5: agent.host.state_dir: must be set", "c.yaml:6: agent.host.cpu_allocation_ratio: 0 is not above 0", "c.yaml:7: agent.host.reserved_host_cpus: -1 is below 0",
				"c.yaml:8: agent.host.poll_every: 1ms is not between 1s and 1h0m0s", `c.yaml:9: agent.host.virt_type: "xen" is none of`, `agent.host.aggregates[0].uuid: "x" is not a uuid`,
				`agent.host.aggregates[0].metadata: "y" is not name=value`, `agent.host.pci_devices[0].tags: "a=c" is not name=value, or its name stands twice`,
				"agent.host.disabled_reason: is of use with disabled only", `agent.host.reserved_huge_pages[0].node: "x" is not a whole number`, "unknown key agent.host.instances; did you mean",
			},
		},
		"print of a simulation": {section: "agent", flags: map[string]string{"agent.print": "true", "agent.hosts": "3"}, want: []string{"--print: agent.print: is of use without hosts only"}},
		"dev":                   {section: "dev", flags: map[string]string{"dev.cell_base_port": "65535", "dev.once": "true"}, want: []string{"dev.data: must be set", "ports 65535 to 65537", "--once: dev.once: is of use with sample only"}},
	} {
		t.Run(name, func(t *testing.T) {
			src := Source{Env: c.env, Flags: c.flags}
			if c.file != "" {
				src.File = write(t, c.file)
			}
			if c.section == "" {
				c.section = "gateway"
			}
			_, err := Load(c.section, src)
			var p *Problems
			if !errors.As(err, &p) {
				t.Fatalf("error = %v, want *Problems", err)
			}
			if len(p.List) != len(c.want) {
				t.Errorf("%d problems, want %d", len(p.List), len(c.want))
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error does not say %q:\n%v", w, err)
				}
			}
		})
	}
}

func TestMissingFileIsAProblem(t *testing.T) {
	_, err := Load("cell", Source{File: "/nonexistent/c.yaml"})
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/c.yaml") {
		t.Errorf("error = %v, want one that names the file", err)
	}
	// The file cannot be read, so its content is unknown. Only problems of the flags themselves are
	// reported in addition.
	for flag, want := range map[string]int{"": 1, "x": 2} {
		flags := map[string]string{}
		if flag != "" {
			flags["gateway.max_in_flight"] = flag
		}
		_, err := Load("gateway", Source{File: "/nonexistent/c.yaml", Flags: flags, Check: func(Config) []fault.Field {
			return []fault.Field{{Path: "gateway.filters", Problem: "are judged"}}
		}})
		var p *Problems
		if !errors.As(err, &p) || len(p.List) != want {
			t.Errorf("max_in_flight %q: %v, want %d problems", flag, err, want)
		}
	}
}

func TestInsecureAllowsOtherAddresses(t *testing.T) {
	c, err := Load("dev", Source{Flags: map[string]string{"dev.data": "d", "dev.http": "0.0.0.0:80", "dev.insecure": "true"}})
	if err != nil || c.Dev.HTTP != "0.0.0.0:80" {
		t.Errorf("config = %+v, error %v", c.Dev, err)
	}
	for host, want := range map[string]bool{"127.0.0.1": true, "127.9.9.9": true, "::1": true, "localhost": true, "": false, "0.0.0.0": false, "::": false, "example.org": false} {
		if IsLoopback(host) != want {
			t.Errorf("IsLoopback(%q) = %v", host, !want)
		}
	}
}

// Every key has names of one pattern, a description, a default that can be read back from text
// and is in its range, and a range where it is a number or a duration.
func TestKeys_All_AreDescribed(t *testing.T) {
	for _, section := range names(reflect.TypeFor[Config]()) {
		flags := map[string]bool{}
		for _, k := range Keys(section) {
			if k.Flag == "" || flags[k.Flag] || strings.ToUpper(k.Env) != k.Env {
				t.Errorf("key %+v has a bad name", k)
			}
			flags[k.Flag] = true
			for _, one := range append(k.Entry, k) {
				isNumber := one.Kind == Number || one.Kind == Duration
				if one.Help == "" || isNumber != (one.Range != "") || one.Reload == "" {
					t.Errorf("key %+v lacks a description or a range, or has one that it does not need", one)
				}
				if _, _, err := one.Range.bounds(one.Kind); isNumber && err != nil {
					t.Errorf("%s: range %q: %v", one.Path, one.Range, err)
				}
			}
			c := Default()
			f := Value(c, k.Path)
			if problem := ""; k.Range != "" {
				if problem = k.Range.problem(f); problem != "" {
					t.Errorf("%s: its default %s", k.Path, problem)
				}
			}
			if k.Default == "" {
				continue
			}
			before := f.Interface()
			if err := setText(f, k.Default); err != nil || !reflect.DeepEqual(f.Interface(), before) {
				t.Errorf("%s: default %q is read as %v, error %v", k.Path, k.Default, f.Interface(), err)
			}
		}
	}
}

func TestRange_Values_AreJudged(t *testing.T) {
	for _, c := range []struct {
		of    Range
		value any
		want  string
	}{
		{"0..", 0, ""},
		{"0..", -1, "-1 is below 0"},
		{"1..4096", 4097, "4097 is not between 1 and 4096"},
		{"any", -1, ""},
		{">0..1", 0.0, "0 is not above 0 and at most 1"},
		{">0..1", 1.0, ""},
		{"0..1", math.NaN(), "NaN is not between 0 and 1"},
		{">0s..", time.Duration(0), "0s is not above 0"},
		{"0|100ms..5s", time.Duration(0), ""},
		{"0|100ms..5s", time.Millisecond, "1ms is not between 100ms and 5s"},
	} {
		if got := c.of.problem(reflect.ValueOf(c.value)); got != c.want {
			t.Errorf("%v in %s: %q, want %q", c.value, c.of, got, c.want)
		}
	}
}

// Ranges that are also constants in other packages.
func TestRange_Constants_Agree(t *testing.T) {
	want := map[string]float64{
		"gateway.drain_delay": float64(MaxDrainDelay), "cell.drain_delay": float64(MaxDrainDelay),
		"gateway.nova.host_subset_size": limits.Subset, "gateway.nova.metrics_weight_of_unavailable": limits.Weight,
	}
	for _, section := range []string{"gateway", "cell", "agent"} {
		for _, k := range Keys(section) {
			if is, named := want[k.Path]; named {
				if _, most, err := k.Range.bounds(k.Kind); err != nil || most != is {
					t.Errorf("%s: at most %v, want %v, %v", k.Path, most, is, err)
				}
				delete(want, k.Path)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no keys %v", want)
	}
}

// SIGHUP changes the keys of the agent's host, except those that identify the host.
func TestLasting_HostKeys_AreLeftOut(t *testing.T) {
	one, other := Default(), Default()
	other.Agent.Host = Host{StateDir: one.Agent.Host.StateDir, DiskPath: "/x", Traits: []string{"T"}, CPURatio: 2}
	if !reflect.DeepEqual(Lasting(one, "agent"), Lasting(other, "agent")) || one.Agent.Host.DiskPath == "" {
		t.Error("what SIGHUP changes is left in, or the configuration was changed")
	}
	for name, change := range map[string]func(*Agent){
		"state_dir": func(a *Agent) { a.Host.StateDir = "/x" }, "service_host": func(a *Agent) { a.Host.ServiceHost = "x" },
		"uuid_file": func(a *Agent) { a.Host.UUIDFile = "/x" }, "replicas": func(a *Agent) { a.Replicas = []string{"h:1"} },
	} {
		other = one
		change(&other.Agent)
		if reflect.DeepEqual(Lasting(one, "agent"), Lasting(other, "agent")) {
			t.Errorf("a change of %s is not seen", name)
		}
	}
}

func TestReference_Page_IsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/configuration.md")
	if err != nil || string(page) != Reference() {
		t.Errorf("docs/reference/configuration.md is not what the keys give (%v): run make gen", err)
	}
}

// Problems that only the process can find are reported with the others, in order.
func TestProblemsOfTheProcessStandWithTheOthers(t *testing.T) {
	file := write(t, "gateway:\n  filters: [NoFilter]\n  http: x\n")
	_, err := Load("gateway", Source{File: file, Flags: map[string]string{"gateway.weighers": "a=1;b=2", "gateway.cells": "a=h:1"}, Check: func(c Config) []fault.Field {
		return []fault.Field{{Path: "gateway.filters[0]", Problem: "there is no " + c.Gateway.Filters[0]}, {Path: "gateway.weighers[1].name", Problem: "there is no " + c.Gateway.Weighers[1].Name}}
	}})
	for _, want := range []string{"c.yaml:2: gateway.filters[0]: there is no NoFilter", "--weigher: gateway.weighers[1].name: there is no b", "c.yaml:3: gateway.http:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}
