package cell

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"cellgate/internal/security"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// problemsOf are what a state was refused for, as one text.
func problemsOf(m *agentv1.ReportResponse) string {
	return strings.Join(m.GetRefused().GetProblems(), "; ")
}

func TestReport_CellHasItsHosts_RefusedNamingTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		two := func(c *Config) { c.MaxHosts = 2 }
		r := start(t, store, two)
		first := r.register(plainState(1, 8))
		r.register(plainState(2, 8))
		if got := problemsOf(r.agent().report(plainState(3, 8))); !strings.Contains(got, "cell cell1 may have 2 hosts (cell.max_hosts)") {
			t.Errorf("a third host: %q", got)
		}
		again := plainState(1, 16)
		again.Version = 2
		if m := first.report(again); m.GetAccepted() == nil {
			t.Errorf("a host that is there: %v", m)
		}
		r.stop()
		r = start(t, store, two)
		if got := problemsOf(r.agent().report(plainState(3, 8))); !strings.Contains(got, "cell.max_hosts") {
			t.Errorf("a third host after a restart: %q", got)
		}
	})
}

func TestReport_CellHasItsBytes_RefusedNamingTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), func(c *Config) { c.MaxHostsMiB = 1 })
		accepted := 0
		for n := range 20 {
			s := plainState(n, 8)
			s.Facts = &agentv1.Facts{CpuInfo: `{"vendor": "` + strings.Repeat("x", 60<<10) + `"}`}
			m := r.agent().report(s)
			if m.GetAccepted() != nil {
				accepted++
			} else if got := problemsOf(m); !strings.Contains(got, "may take 1 MiB (cell.max_hosts_mib)") {
				t.Errorf("host %d: %q", n, got)
			}
		}
		if accepted != 16 {
			t.Errorf("%d hosts of 61 KiB were taken within 1 MiB, want 16", accepted)
		}
	})
}

// Hosts that are on their way count, those of other credentials do not, and one that was
// not written counts no more.
func TestAdmit_CredentialHasItsHosts_RefusedNamingTheLimit(t *testing.T) {
	r := start(t, newStore(t), func(c *Config) { c.MaxAgentHosts = 2 })
	host := func(n int, service string) *shard.Host {
		return &shard.Host{UUID: hostUUID(n), ServiceHost: service, Providers: []shard.Provider{{UUID: hostUUID(n)}}}
	}
	for _, names := range [][]string{{"compute1"}, {"rack2-*"}} {
		id := &security.Identity{Role: security.Agent, Name: names[0], Hosts: names}
		ctx := security.With(t.Context(), id)
		service := strings.Replace(names[0], "*", "h", 1)
		for n := range 2 {
			if _, err := r.cell.agents.admit(ctx, host(10*len(service)+n, service)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := r.cell.agents.admit(ctx, host(10*len(service)+2, service))
		want := fmt.Sprintf("credential %q may have 2 hosts (cell.max_agent_hosts)", names[0])
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, errHostLimit) {
			t.Errorf("a third host of %s: %v, want %q", names[0], err, want)
		}
	}
	ctx := security.With(t.Context(), &security.Identity{Role: security.Agent, Name: "c3", Hosts: []string{"c3"}})
	for n := range 5 {
		settle, err := r.cell.agents.admit(ctx, host(500+n, "c3"))
		if err != nil {
			t.Fatalf("host %d, after others were not written: %v", n, err)
		}
		settle()
	}
}

func TestReport_ProviderOfAnotherHost_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		child := func(host, uuid int) *agentv1.FullState {
			s := plainState(host, 8)
			s.Providers = append(s.Providers, &agentv1.Provider{Uuid: hostUUID(uuid), ParentUuid: hostUUID(host)})
			return s
		}
		r.register(child(1, 100))
		for name, s := range map[string]*agentv1.FullState{
			"a child that is another host's root": child(2, 1), "another host's child": child(3, 100), "a root that is another host's child": plainState(100, 8),
		} {
			if got := problemsOf(r.agent().report(s)); !strings.Contains(got, "is a provider of host "+hostUUID(1)) {
				t.Errorf("%s: %q", name, got)
			}
		}
		// It may go to another host once it is let go.
		s := plainState(1, 8)
		s.Version = 2
		r.register(s)
		r.register(child(3, 100))
	})
}
