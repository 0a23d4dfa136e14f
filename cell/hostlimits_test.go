package cell

import (
	"strings"
	"testing"
	"testing/synctest"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// problemsOf returns the problems for which a state was refused, as one text.
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
		// After its release the claim may go to another host.
		s := plainState(1, 8)
		s.Version = 2
		r.register(s)
		r.register(child(3, 100))
	})
}
