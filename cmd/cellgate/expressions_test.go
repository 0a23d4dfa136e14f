package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// The expressions in a gateway's file decide in its cells, by the facts that services report.
func TestConfiguredExpressionsDecideInCells(t *testing.T) {
	cell := launch(t, true, "cell", "--name", "cell1", "--uuid", "c0000000-0000-4000-8000-000000000001",
		"--data", t.TempDir(), "--grpc", "127.0.0.1:0")
	cellAddr := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
	fleet := launch(t, true, "agent", "--cell", "cell1", "--replica", cellAddr, "--hosts", "5")
	fleet.await(`msg="every host is registered"`)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	text := "gateway:\n  drain_delay: 0s\n  cells: [{name: cell1, replicas: ['" + cellAddr + "']}]\n" +
		"  filter_expression: facts.power.ok && facts.power.rack in ['a', 'b']\n  weigh_expression: facts.power.watts\n  weigh_multiplier: 1000\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	gw := launch(t, true, "gateway", "--drain-delay", "0s", "--config", file, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
	api := gw.await(`msg="gateway starts".* grpc=(\S+)`)[1]

	_, stderr, status := typed(t.Context(), "", "select", "--addr", api)
	if status != exitRefused || !strings.Contains(stderr, "ConfiguredExpressionFilter(missing: power)") {
		t.Errorf("without facts: status %d\n%s", status, stderr)
	}
	var hosts cellgatev1.ListHostsResponse
	cellgate(t, api, exitDone, &hosts, "hosts")
	list := hosts.GetHosts()
	slices.SortFunc(list, func(a, b *cellgatev1.Host) int { return strings.Compare(a.GetServiceHost(), b.GetServiceHost()) })
	for i, facts := range map[int]string{
		2: `{"ok": true, "rack": "a", "watts": 100}`, 3: `{"ok": true, "rack": "b", "watts": 300}`, 4: `{"ok": false, "rack": "a", "watts": 900}`,
	} {
		if out, stderr, status := typed(t.Context(), facts, "hosts", "facts", list[i].GetHostUuid(), "power", "--put", "-", "--addr", api); status != exitDone {
			t.Fatalf("status %d\n%s%s", status, out, stderr)
		}
	}
	var placed cellgatev1.SelectDestinationsResponse
	cellgate(t, api, exitDone, &placed, "select")
	if got, want := placed.GetDestinations()[0].GetSelected().GetServiceHost(), list[3].GetServiceHost(); got != want {
		t.Errorf("placed on %s, want %s", got, want)
	}
	gw.stop()
	fleet.stop()
	cell.stop()
}

// A wrong expression ends the start. The error names its place in the file, or the flag.
func TestBadConfiguredExpressionsEndTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	text := "gateway:\n  cells: [{name: a, replicas: ['127.0.0.1:1']}]\n  filter_expression: |\n    host.free.VCPU > 1 &&\n      host.rack == 3\n  weigh_multiplier: 3\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags []string
		want  []string
	}{
		{nil, []string{file + ":3: gateway.filter_expression: line 2, column 3: undeclared reference to 'host' with such a field", file + ":6: gateway.weigh_multiplier: is of use with weigh_expression only"}},
		{[]string{"--filter-expression", "1 + 1", "--weigh-expression", "host.zone", "--weigh-multiplier", "1e9"}, []string{
			"--filter-expression: gateway.filter_expression: must be a bool, is int", "--weigh-expression: gateway.weigh_expression: must be a number, is string",
			"--weigh-multiplier: gateway.weigh_multiplier: 1e+09 is not between -1000000 and 1000000",
		}},
		{[]string{"--filter-expression", "facts.x == 1, 2; 3"}, []string{"--filter-expression: gateway.filter_expression: line 1, column 13: Syntax error"}},
		{[]string{"--filter-expression", "facts.x.y == 1", "--weigh-expression", "1", "--legacy", "a=mysql://u@127.0.0.1/nova"}, []string{"--filter-expression: gateway.filter_expression: reads facts"}},
	} {
		_, stderr, status := typed(t.Context(), "", append([]string{"gateway", "--config", file}, c.flags...)...)
		if status != exitUsage {
			t.Errorf("%v: status %d", c.flags, status)
		}
		for _, want := range c.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%v: it does not say %q:\n%s", c.flags, want, stderr)
			}
		}
	}
}
