package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestTable_Sort_ByAmountsDurationsAndTexts(t *testing.T) {
	for flag, want := range map[string]string{
		"host":       "a b c",
		"host:desc":  "c b a",
		"vcpu":       "b a c",
		"VCPU:desc":  "c a b",
		"memory-gib": "b c a",
		"took:asc":   "a c b",
	} {
		out := &page{names: true, sort: flag}
		tab := out.table("HOST", "VCPU", "+MEMORY GIB", "TOOK")
		tab.row("b", "9/256", "", "1.2 s")
		tab.row("c", "128/256", "10", "3 ms")
		tab.row("a", "10/16", "11", "948 µs")
		tab.print()
		if got := strings.Join(strings.Fields(out.String()), " "); got != want || out.unsorted != nil {
			t.Errorf("%s: %s, %v, want %s", flag, got, out.unsorted, want)
		}
	}
	for flag, want := range map[string]string{"zone": "there are host, vcpu", "host:up": `"up" is none of asc, desc`} {
		out := &page{sort: flag}
		out.table("HOST", "VCPU").print()
		if out.unsorted == nil || !strings.Contains(out.unsorted.Error(), want) {
			t.Errorf("%s: %v, want %q", flag, out.unsorted, want)
		}
	}
}

func TestTable_Colors_KeepColumnsAligned(t *testing.T) {
	show := func(p *page) string {
		tab := p.table("HOST", "STATE", "ZONE")
		tab.row("a", "down", "az1")
		tab.row("bcd", "up", "az2")
		tab.print()
		return p.String()
	}
	colored := show(&page{colored: true})
	if !strings.Contains(colored, red+"down") {
		t.Errorf("no red in %q", colored)
	}
	stripped := strings.NewReplacer(red, "", bold, "", neutral, "", reset, "").Replace(colored)
	if want := show(&page{}); stripped != want {
		t.Errorf("%q without colours, want %q", stripped, want)
	}
}

// answering answers every call with one message.
type answering struct {
	grpc.ClientConnInterface
	fill func(out any)
}

func (a answering) Invoke(_ context.Context, _ string, _, out any, _ ...grpc.CallOption) error {
	a.fill(out)
	return nil
}

func TestCompletion_NamesThatBeginWithTheText(t *testing.T) {
	conn := answering{fill: func(out any) {
		switch out := out.(type) {
		case *cellgatev1.ListCellsResponse:
			out.Cells = []*cellgatev1.Cell{{Cell: "cell1"}, {Cell: "south"}}
		case *cellgatev1.ListHostsResponse:
			out.Hosts = []*cellgatev1.Host{{ServiceHost: "cmp-1"}, {ServiceHost: "old-cmp-1"}}
		}
	}}
	for flag, want := range map[string]string{"cell": "cell1", "host": "cmp-1", "drain": "cmp-1"} {
		if got, err := completedFlags[flag](t.Context(), conn, "c"); err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("--%s: %q, %v, want %s", flag, got, err, want)
		}
	}
	// Without a gateway, completion offers fixed values only and prints no error into the line.
	out, stderr, status := typed(t.Context(), "", "__complete", "cells", "pin", "cell1", "")
	if status != exitDone || !strings.HasPrefix(out, "legacy\nshadow\nnative\n:4") {
		t.Errorf("status %d, %q, %q", status, out, stderr)
	}
	out, stderr, status = typed(t.Context(), "", "__complete", "findings", "--kind", "")
	if status != exitDone || !strings.HasPrefix(out, "orphaned_claim\n") {
		t.Errorf("--kind: status %d, %q, %q", status, out, stderr)
	}
}

func TestTable_TooWideForItsPage_BreaksWordsNotNames(t *testing.T) {
	out := &page{width: 60}
	tab := out.table("INSTANCE", "REJECTED BY", "HOST")
	tab.row("35c1a422-1778-486f", "2 ComputeFilter(disabled), 224 AggregateFilter, 1 ResourceFilter(MEMORY_MB)", "h1")
	tab.print()
	want := "INSTANCE            REJECTED BY                         HOST\n" +
		"35c1a422-1778-486f  2 ComputeFilter(disabled),          h1\n" +
		"                    224 AggregateFilter,\n" +
		"                    1 ResourceFilter(MEMORY_MB)\n"
	if out.String() != want {
		t.Errorf("\n%s\nwant\n%s", out, want)
	}
	wide := &page{wide: true}
	tab.page = wide
	if tab.print(); strings.Count(wide.String(), "\n") != 2 {
		t.Errorf("-o wide breaks lines:\n%s", wide)
	}
}

// Adopted, pending and rejected claims of the sample's fleet fit a page together.
func TestClaimsList_EveryState_FitsAPage(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	claim := func(state cellgatev1.ClaimState, expires *timestamppb.Timestamp, change func(*cellgatev1.Claim)) *cellgatev1.Claim {
		c := &cellgatev1.Claim{ConsumerUuid: novaHostID(1), State: state, Cell: "cell1", ServiceHost: "cell1-r01-h014", ExpiresAt: expires}
		change(c)
		return c
	}
	out := &page{width: pageWidth}
	showClaims(out, &cellgatev1.ListClaimsResponse{Claims: []*cellgatev1.Claim{
		claim(cellgatev1.ClaimState_CONFIRMED, nil, func(c *cellgatev1.Claim) { c.Adopted = true }),
		claim(cellgatev1.ClaimState_PENDING, at, func(c *cellgatev1.Claim) {
			c.Verdict = &cellgatev1.ClaimVerdict{Outcome: "REJECTED", Reason: "UNKNOWN_PROVIDER"}
		}),
	}})
	for line := range strings.Lines(out.String()) {
		if n := len(strings.TrimRight(line, "\n")); n > pageWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestTable_OfARecord_HasALineAColumn(t *testing.T) {
	show := func(p *page) string {
		tab := p.table("CLAIM", "+AMOUNTS", "HOST")
		tab.row("c1", "VCPU=1", "h1")
		tab.row("c2", "VCPU=2", "")
		tab.print()
		return p.String()
	}
	if got, want := show(&page{record: true}), "CLAIM    c1\nAMOUNTS  VCPU=1\nHOST     h1\n\nCLAIM    c2\nAMOUNTS  VCPU=2\nHOST     -\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := show(&page{record: true, names: true}); got != "c1\nc2\n" {
		t.Errorf("%q", got)
	}
}
