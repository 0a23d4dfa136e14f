package hostprobe

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/config"
	"cellgate/internal/telemetry"
)

// Names and aggregates that every cell refuses are a problem of the settings, and the previous
// configuration stays.
func TestSettingsThatEveryCellRefuses(t *testing.T) {
	aggregate := config.Aggregate{UUID: "abcdef12-0000-4000-8000-00000000abcd", Name: "a"}
	for path, change := range map[string]func(s *Settings){
		"nodename":     func(s *Settings) { s.NodeName = "   " },
		"service_host": func(s *Settings) { s.ServiceHost = "a\tb" },
		"aggregates[1].uuid": func(s *Settings) {
			s.Aggregates = []config.Aggregate{aggregate, {UUID: strings.ToUpper(aggregate.UUID), Name: "b"}}
		},
	} {
		s := plain()
		change(&s)
		if p := s.Problems(); len(p) != 1 || p[0].Path != path {
			t.Errorf("%s: %v", path, p)
		}
		synctest.Test(t, func(t *testing.T) {
			m := &machine{files: tree(t, "one-node"), disk: 100 << 30}
			p, host, log := probing(t, m, Config{Settings: plain(), Every: 10 * time.Second}, telemetry.Agent{})
			p.Reload(Config{Settings: s, Every: time.Second})
			after(2)
			if _, v := version(host); v != 1 || !strings.Contains(log.String(), "the former one stays") || !strings.Contains(log.String(), "agent.host."+path) {
				t.Errorf("version %d:\n%s", v, log)
			}
		})
	}
	s := plain()
	s.Aggregates = []config.Aggregate{{UUID: strings.ToUpper(aggregate.UUID), Name: "a"}}
	if r, err := report(t, tree(t, "one-node"), s); err != nil || r.State.GetAggregates()[0].GetUuid() != aggregate.UUID {
		t.Errorf("in capitals: %v %v", r, err)
	}
}

// ppc64 and arm64 have memory pages of 16 GiB.
func TestProblems_PagesOf16GiB_None(t *testing.T) {
	s := plain()
	s.ReservedHugePages = []config.ReservedPages{{Size: "16GB"}, {Size: "512MB"}}
	if bad := s.Problems(); len(bad) > 0 {
		t.Errorf("%v", bad)
	}
}
