package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A text that an operator wrote breaks no line and cannot control another operator's terminal.
func TestReasonsAreShownAsText(t *testing.T) {
	const raw = "a\nb\t\x1b[31m\u202e\xffé"
	const shown = `a\nb\t\x1b[31m\u202e\xffé`
	var out page
	rows := out.table("HOST", "WHY")
	rows.row("h1", raw)
	rows.print()
	out.WriteString(adminLine(&cellgatev1.HostAdmin{
		State: cellgatev1.HostAdmin_DISABLED, Reason: raw, By: raw, Nova: raw, Since: &timestamppb.Timestamp{},
	}))
	showGate(&out, &cellgatev1.Gate{State: cellgatev1.Gate_LEGACY, Reason: raw, Pin: cellgatev1.Gate_LEGACY, PinReason: raw})
	if n := strings.Count(out.String(), shown); n != 6 || strings.ContainsAny(out.String(), "\x1b\t\u202e") {
		t.Errorf("%d of 6 are shown as %s:\n%q", n, shown, out.String())
	}
}

func TestTable_FormsOfOutput_ShowTheirColumns(t *testing.T) {
	for want, out := range map[string]*page{
		"2 hosts\nHOST  CELL\na     cell1\nb     -\n":                   {},
		"2 hosts\nHOST  UUID  CELL\na     1     cell1\nb     2     -\n": {wide: true},
		"a\nb\n": {names: true},
	} {
		out.printf("%d hosts\n", 2)
		tab := out.table("HOST", "+UUID", "CELL")
		tab.row("a", 1, "cell1")
		tab.row("b", 2, "")
		tab.print()
		out.table("NONE").printBelow()
		if out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	}
}

func TestPrintMessage_YAML_IsBlocksInTheOrderOfFields(t *testing.T) {
	var out strings.Builder
	m := &cellgatev1.CellReport{Cell: "cell1", Hosts: 3, Rejects: []*cellgatev1.RejectCount{{Filter: "ComputeFilter", Hosts: 2}}, Reason: "yes"}
	if err := printMessage(&out, m, "yaml"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cell: \"cell1\"\n", "rejects:\n    - ", "filter: \"ComputeFilter\"\n", "reason: \"yes\"\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.ContainsAny(out.String(), "{}") {
		t.Errorf("not in blocks:\n%s", out.String())
	}
}

// A list omits what only GetHost shows, because empty values would say that a host has none.
func TestPrintMessage_ListOfHosts_LeavesOutWhatItDoesNotHave(t *testing.T) {
	h := &cellgatev1.Host{HostUuid: "u", Nodename: `,"numa_cells":[]`}
	for _, form := range []string{"json", "yaml"} {
		var list, one strings.Builder
		if err := errors.Join(printMessage(&list, &cellgatev1.ListHostsResponse{Hosts: []*cellgatev1.Host{h, h}}, form),
			printMessage(&one, &cellgatev1.GetHostResponse{Host: h}, form)); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"namespaces", "numa_cells", "device_pools", "hardware_claims", "hardware_problem"} {
			in := regexp.MustCompile(`(?m)^ *"?` + key + `"?:`)
			if in.MatchString(list.String()) || !in.MatchString(one.String()) {
				t.Errorf("%s: %s stands in the list\n%s\nor not in\n%s", form, key, list.String(), one.String())
			}
		}
		if strings.Count(list.String(), "numa_cells") != 2 || !strings.Contains(list.String(), "traits") {
			t.Errorf("%s: it lacks what it has:\n%s", form, list.String())
		}
	}
}
