package agents

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cellgate/cell/liveness"
	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/internal/security"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// Hosts that are being registered count towards a credential's limit. Hosts of other credentials do
// not, and neither does a host whose write failed.
func TestAdmit_CredentialHasItsHosts_RefusedNamingTheLimit(t *testing.T) {
	now := time.Now
	state := replica.NewState(replica.Config{Now: now, Log: slog.New(slog.DiscardHandler)}, liveness.New(time.Minute, now))
	s := New(t.Context(), Config{MaxHosts: 100, MaxHostsMiB: 100, MaxAgentHosts: 2, MaxAgentHostsMiB: 100, Now: now}, state, nil, nil)
	host := func(n int, service string) *shard.Host {
		return &shard.Host{UUID: hostUUID(n), ServiceHost: service, Providers: []shard.Provider{{UUID: hostUUID(n)}}}
	}
	for _, names := range [][]string{{"compute1"}, {"rack2-*"}} {
		id := &security.Identity{Role: security.Agent, Name: names[0], Hosts: names}
		ctx := security.With(t.Context(), id)
		service := strings.Replace(names[0], "*", "h", 1)
		for n := range 2 {
			if _, err := s.admit(ctx, host(10*len(service)+n, service)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.admit(ctx, host(10*len(service)+2, service))
		want := fmt.Sprintf("credential %q may have 2 hosts (cell.max_agent_hosts)", names[0])
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a third host of %s: %v, want %q", names[0], err, want)
		}
	}
	ctx := security.With(t.Context(), &security.Identity{Role: security.Agent, Name: "c3", Hosts: []string{"c3"}})
	for n := range 5 {
		settle, err := s.admit(ctx, host(500+n, "c3"))
		if err != nil {
			t.Fatalf("host %d, after others were not written: %v", n, err)
		}
		settle()
	}
}

// Names of hosts are in the cell's summary, which gateways must be able to read. A host with the names of others is admitted.
func TestAdmit_NamesOfAllHosts_Bounded(t *testing.T) {
	state := replica.NewState(replica.Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}, liveness.New(time.Minute, time.Now))
	s := New(t.Context(), Config{Cell: "cell1", MaxHosts: 100, MaxHostsMiB: 100, Now: time.Now}, state, nil, nil)
	host := func(n int, from, to int) *shard.Host {
		h := &shard.Host{UUID: hostUUID(n), ServiceHost: "c", Providers: []shard.Provider{{UUID: hostUUID(n)}}}
		for i := from; i < to; i++ {
			h.Providers[0].Traits = append(h.Providers[0].Traits, fmt.Sprintf("CUSTOM_%0240d", i))
		}
		return h
	}
	admitted := func(h *shard.Host) (settle func()) {
		t.Helper()
		settle, err := s.admit(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		return settle
	}
	first := admitted(host(1, 0, 10_000))
	admitted(host(2, 0, 10_000))
	if _, err := s.admit(t.Context(), host(3, 10_000, 20_000)); fault.KindOf(err) != fault.InvalidRequest || !strings.Contains(err.Error(), "names of 4 MiB") {
		t.Errorf("names beyond the bound: %v", err)
	}
	first()
	if _, err := s.admit(t.Context(), host(3, 10_000, 20_000)); err == nil {
		t.Error("names beyond the bound, which one of two hosts has no more")
	}
	admitted(host(2, 0, 10))()
	admitted(host(3, 10_000, 20_000))
}

// An agent that is asked again and again is asked ever more rarely. After a long quiet time, or if
// the clock was set back, it is asked again at once.
func TestAsksForAHostAreEverFurtherApart(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newStreams(0, func() time.Time { return now })
	var at []time.Duration
	begun := now
	for ; now.Before(begun.Add(10 * time.Minute)); now = now.Add(time.Second) {
		if s.mayAskAgain("h", 20*time.Second, 2*time.Minute) {
			at = append(at, now.Sub(begun))
		}
	}
	want := []time.Duration{0, 20 * time.Second, time.Minute, 140 * time.Second, 260 * time.Second, 380 * time.Second, 500 * time.Second}
	if len(at) != len(want) {
		t.Fatalf("asked at %v, want %v", at, want)
	}
	for i := range want {
		if at[i] != want[i] {
			t.Errorf("asked at %v, want %v", at, want)
		}
	}
	for name, to := range map[string]time.Time{"quiet": now.Add(5 * time.Minute), "back": begun} {
		if now = to; !s.mayAskAgain("h", 20*time.Second, 2*time.Minute) {
			t.Errorf("%s: not asked", name)
		}
	}
}

// A state that makes its registration panic ends its stream. The process goes on, and with it the other hosts' agents.
func TestRegister_Panics_StreamEnds(t *testing.T) {
	state := replica.NewState(replica.Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}, liveness.New(time.Minute, time.Now))
	s := New(t.Context(), Config{Cell: "cell1", Now: time.Now}, state, nil, nil)
	s.rows = nil
	r := registration{Service: s}
	out := r.register(t.Context(), &agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: plainState(1, 8)}})
	if fault.KindOf(out.err) != fault.Internal || out.state != nil || out.reply != nil {
		t.Errorf("%+v", out)
	}
	if n := len(s.Decoding); n > 0 {
		t.Errorf("%d slots for decoding are not free", n)
	}
}
