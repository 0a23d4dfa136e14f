package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// What an operator wrote breaks no line, and says nothing to another one's terminal.
func TestReasonsAreShownAsText(t *testing.T) {
	const said = "a\nb\t\x1b[31m\u202e\xffé"
	const shown = `a\nb\t\x1b[31m\u202e\xffé`
	var out bytes.Buffer
	rows := newTable(&out, "HOST", "WHY")
	rows.row("h1", said)
	if err := rows.end(); err != nil {
		t.Fatal(err)
	}
	out.WriteString(adminLine(&cellgatev1.HostAdmin{
		State: cellgatev1.HostAdmin_DISABLED, Reason: said, By: said, Nova: said, Since: &timestamppb.Timestamp{},
	}))
	if err := showGate(&out, &cellgatev1.Gate{State: cellgatev1.Gate_LEGACY, Reason: said, Pin: cellgatev1.Gate_LEGACY, PinReason: said}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), shown); n != 6 || strings.ContainsAny(out.String(), "\x1b\t\u202e") {
		t.Errorf("%d of 6 are shown as %s:\n%q", n, shown, out.String())
	}
}

func TestTable_WideOnlyColumns_ShownInWideOutputAlone(t *testing.T) {
	for want, out := range map[string]func(io.Writer) io.Writer{
		"HOST  CELL\na     cell1\n":             func(w io.Writer) io.Writer { return w },
		"HOST  UUID  CELL\na     1     cell1\n": func(w io.Writer) io.Writer { return wide{w} },
	} {
		var text strings.Builder
		tab := newTable(out(&text), "HOST", "+UUID", "CELL")
		tab.row("a", 1, "cell1")
		if err := tab.end(); err != nil || text.String() != want {
			t.Errorf("%q, want %q; %v", text.String(), want, err)
		}
	}
}
