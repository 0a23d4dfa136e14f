package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestWhatOperatorsWantOfAHostIsShown(t *testing.T) {
	end := timestamppb.New(time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC))
	is := func(s cellgatev1.HostAdmin_State, up bool) *cellgatev1.Host {
		return &cellgatev1.Host{Enabled: true, Up: up, Admin: &cellgatev1.HostAdmin{State: s, Reason: "a kernel", By: "alice", Since: end}}
	}
	limited, imported := is(cellgatev1.HostAdmin_MAINTENANCE, true), is(cellgatev1.HostAdmin_DISABLED, false)
	limited.Admin.Until, imported.Imported = end, true
	nova := func(s cellgatev1.HostAdmin_State, up bool) *cellgatev1.Host {
		h := is(s, up)
		h.Admin.Nova = "disabled in Nova: HW failure"
		return h
	}
	refused := is(cellgatev1.HostAdmin_ENABLED, true)
	refused.Refused = &cellgatev1.RefusedState{Since: end, Version: 7, Problems: []string{"nodename: is blank"}, Stays: true}
	for want, h := range map[string]*cellgatev1.Host{
		"up (newer state refused)":                            refused,
		"disabled by operator: a kernel":                      is(cellgatev1.HostAdmin_DISABLED, true),
		"disabled by operator: a kernel (down)":               is(cellgatev1.HostAdmin_DISABLED, false),
		"disabled by operator: a kernel (imported)":           imported,
		"maintenance: a kernel":                               is(cellgatev1.HostAdmin_MAINTENANCE, true),
		"maintenance until 2026-01-31T18:00:00Z: a kernel":    limited,
		"forced down: a kernel":                               is(cellgatev1.HostAdmin_FORCED_DOWN, false),
		"disabled in Nova: HW failure":                        nova(cellgatev1.HostAdmin_ENABLED, false),
		"forced down: a kernel; disabled in Nova: HW failure": nova(cellgatev1.HostAdmin_FORCED_DOWN, false),
		"up":   is(cellgatev1.HostAdmin_ENABLED, true),
		"down": is(cellgatev1.HostAdmin_ENABLED, false),
	} {
		if got := hostState(h); got != want {
			t.Errorf("%v is shown as %q, want %q", h.GetAdmin(), got, want)
		}
	}
	if got, want := refusedLine(refused), "its newer state, version 7, is refused since 2026-01-31T18:00:00Z: nodename: is blank; it stays up on its last accepted state, which is shown\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	refused.Up = false
	if got, want := refusedLine(refused), "nodename: is blank; its last accepted state is shown; the host is down since its agent does not confirm that state in heartbeats"; !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := adminLine(is(cellgatev1.HostAdmin_FORCED_DOWN, false).GetAdmin()), "forced down: a kernel (since 2026-01-31T18:00:00Z, by alice)\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := adminLine(&cellgatev1.HostAdmin{State: cellgatev1.HostAdmin_ENABLED, Nova: "its nova-compute is down", Since: end}), "its nova-compute is down\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := adminLine(nova(cellgatev1.HostAdmin_MAINTENANCE, true).Admin), "maintenance: a kernel (since 2026-01-31T18:00:00Z, by alice)\ndisabled in Nova: HW failure\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := adminLine(nil); got != "" {
		t.Errorf("of a host of which nobody said anything: %q", got)
	}
}

func TestWrongUseOfTheCommandsThatTakeHostsOutOfService(t *testing.T) {
	for _, args := range [][]string{
		{"hosts", "disable"},
		{"hosts", "disable", "h"},
		{"hosts", "force-down", "h", "--reason", ""},
		{"hosts", "disable", "h", "--reason", "x", "--for", "1h"},
		{"hosts", "maintenance", "h", "--reason", "x", "--for", "1h", "--until", "2026-01-31T18:00:00Z"},
		{"hosts", "maintenance", "h", "--reason", "x", "--until", "tomorrow"},
		{"hosts", "maintenance", "h", "--reason", "x", "--for", "0s"},
		{"hosts", "enable", "h", "g"},
	} {
		if _, stderr, status := typed(t.Context(), "", args...); status != exitUsage || stderr == "" {
			t.Errorf("%v: status %d, %q", args, status, stderr)
		}
	}
}

func TestHosts_Wide_ShowsSourceAndLastHeartbeat(t *testing.T) {
	reported := &cellgatev1.Host{LastSeenAt: timestamppb.New(time.Now().Add(-3 * time.Hour))}
	if source(reported) != "agent" || reportAge(reported) != "3h0m ago" {
		t.Errorf("%s, %s", source(reported), reportAge(reported))
	}
	imported := &cellgatev1.Host{Imported: true, LastSeenAt: reported.GetLastSeenAt()}
	if source(imported) != "Nova's tables" || reportAge(imported) != "-" {
		t.Errorf("%s, %s", source(imported), reportAge(imported))
	}
	imported.ImportedAt, imported.PlacementTree = timestamppb.New(time.Now().Add(-5*time.Minute)), true
	if source(imported) != "Nova's tables, Placement's API" || reportAge(imported) != "5m ago" {
		t.Errorf("%s, %s", source(imported), reportAge(imported))
	}
	for want, h := range map[string]*cellgatev1.Host{
		"agent version 7, 3h0m ago": {AgentVersion: 7, LastSeenAt: reported.GetLastSeenAt()},
		"agent version 7":           {AgentVersion: 7},
		"imported from Nova's tables, 5m ago; Placement's API reports its providers, no agent reports it": imported,
		"imported from Nova's tables; agent version 7 reports it too":                                     {Imported: true, AgentVersion: 7},
	} {
		if got := hostSource(h); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
