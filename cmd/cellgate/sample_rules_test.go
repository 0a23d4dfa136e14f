package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"cellgate/gateway"
	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/raced"
	"cellgate/samples"
)

func TestOwnRulesAreWhatDiffersFromTheDefaults(t *testing.T) {
	for name, c := range map[string]struct {
		set      func(*config.Gateway)
		differ   []string
		passMore bool
	}{
		"defaults": {set: func(*config.Gateway) {}},
		"defaults, written out": {set: func(g *config.Gateway) {
			g.Filters = gateway.DefaultFilters()
			slices.Reverse(g.Filters)
			for _, w := range gateway.DefaultWeighers() {
				g.Weighers = append(g.Weighers, config.Weigher(w))
			}
			g.Weighers = append(g.Weighers, config.Weigher{Name: "NumInstancesWeigher"}, config.Weigher{Name: "MetricsWeigher", Multiplier: 1})
		}},
		"a filter more, an option": {set: func(g *config.Gateway) {
			g.Filters = append(gateway.DefaultFilters(), "TypeAffinityFilter")
			g.Nova.HostSubsetSize = 2
		}, differ: []string{"TypeAffinityFilter", "host_subset_size=2"}},
		"a filter less": {set: func(g *config.Gateway) {
			g.Filters = slices.DeleteFunc(gateway.DefaultFilters(), func(f string) bool { return f == "ImagePropertiesFilter" })
		}, differ: []string{"without ImagePropertiesFilter"}, passMore: true},
		"a multiplier": {set: func(g *config.Gateway) {
			for _, w := range gateway.DefaultWeighers() {
				w.Multiplier = map[bool]float64{true: -1, false: w.Multiplier}[w.Name == "RAMWeigher"]
				g.Weighers = append(g.Weighers, config.Weigher(w))
			}
		}, differ: []string{"RAMWeigher=-1"}},
		"the default zone": {set: func(g *config.Gateway) { g.DefaultAvailabilityZone = "north" }, differ: []string{"default_availability_zone=north"}, passMore: true},
	} {
		g := config.Default().Gateway
		c.set(&g)
		if r := ownRulesOf(g); !slices.Equal(r.differ, c.differ) || r.passMore != c.passMore {
			t.Errorf("%s: %q, pass more %v; want %q, %v", name, r.differ, r.passMore, c.differ, c.passMore)
		}
	}
}

func TestOutcomesAreJudgedByTheRules(t *testing.T) {
	placed, noHost := error(nil), fault.New(fault.NoValidHost, "no host")
	broken := fault.New(fault.CellUnavailable, "cell2 did not answer")
	same, stricter, looser := ownRules{}, ownRules{differ: []string{"F"}}, ownRules{differ: []string{"without F"}, passMore: true}
	for _, c := range []struct {
		rules  ownRules
		expect string
		got    error
		want   judgement
	}{
		{same, samples.Placed, placed, expected},
		{same, samples.Refused, noHost, expected},
		{same, samples.Placed, noHost, unexpected},
		{same, samples.Refused, placed, unexpected},
		{stricter, samples.Placed, noHost, otherwise},
		{stricter, samples.Refused, placed, unexpected},
		{looser, samples.Refused, placed, otherwise},
		{looser, samples.Placed, broken, unexpected},
		{looser, samples.Refused, broken, unexpected},
		{looser, samples.Refused, errors.New("EOF"), unexpected},
	} {
		o := outcome{sample: sampleOf("s", c.expect, 1), err: c.got}
		if j := c.rules.judge(o); j != c.want {
			t.Errorf("rules %v, %s is to be %s: judged %d, want %d", c.rules, o.got(), c.expect, j, c.want)
		}
	}
}

// With filters of an operator's the sample comes as these have it, and the run says so.
func TestSampleUnderAnOperatorsRules(t *testing.T) {
	raced.Skip(t, whatDevShows)
	if testing.Short() {
		t.Skip("3 cells of 300 hosts")
	}
	conf := novaConfFile(t, `[filter_scheduler]
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,TypeAffinityFilter
host_subset_size = 2
`)
	args := append([]string{"dev", "--cells", "3", "--hosts", "300", "--data", t.TempDir(), "--log-level", "error", "--nova-conf", conf}, freePorts...)
	out, stderr, status := typed(t.Context(), "", append(args, "--sample", "--once")...)
	if status != exitDone || !strings.Contains(out, " 0 unexpected\nThe sample is written for the default rules") || !strings.Contains(out, "came otherwise: TypeAffinityFilter, host_subset_size=2\n") {
		t.Fatalf("status %d, %s\n%s", status, stderr, out)
	}
	marked := 0
	for line := range strings.Lines(out) {
		if strings.Contains(line, "BY OTHER RULES (placed by default)") {
			if marked++; !strings.Contains(line, "TypeAffinityFilter") {
				t.Errorf("a refusal without its reason: %s", line)
			}
		}
	}
	if marked == 0 {
		t.Errorf("nothing came otherwise:\n%s", out)
	}
}
