package nova

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"cellgate/schedule"
)

// TestGoldenHosts compares the hosts made of rows with those Nova made.
func TestGoldenHosts(t *testing.T) {
	for _, c := range loadGolden(t) {
		if c.Expected.Error != nil && c.Expected.Error.Stage == "host_states" {
			continue
		}
		hosts, err := c.hosts()
		if err != nil {
			t.Error(err)
			continue
		}
		if got := keys(hosts); !slices.Equal(got, c.Expected.Hosts) {
			t.Errorf("%s: hosts\n got %v\nwant %v", c.ID, got, c.Expected.Hosts)
		}
	}
}

func keys(hosts []goldenHost) []string {
	out := []string{}
	for _, h := range hosts {
		out = append(out, h.key)
	}
	return out
}

// TestGoldenFilters runs each filter there is alone, and then the enabled ones
// together, and compares the hosts that pass.
func TestGoldenFilters(t *testing.T) {
	alone, together := tally{}, tally{}
	for _, c := range loadGolden(t) {
		r, hosts := c.start(t, alone)
		if r == nil {
			continue
		}
		table := tableOf(hosts, nil)
		free := *r
		free.IgnoreHosts, free.ForceHosts, free.ForceNodes, free.Destination = nil, nil, nil, nil
		for _, f := range goldenFilters {
			if c.Expected.PerFilterError[f] != nil || len(hosts) == 0 {
				continue
			}
			if f == schedule.AntiAffinityFilter && c.stays(&free, hosts) {
				alone["a move: an instance may stay where it is despite anti-affinity"]++
				continue
			}
			want, listed := c.Expected.PerFilter[f]
			if !listed {
				want = c.Expected.Hosts
			}
			got := ask(t, table, hosts, &schedule.Query{Request: &free, Rules: c.rules([]string{f}, nil)})
			if compareSets(t, c.ID+" "+f, got, want) {
				alone[f+" alone agrees"]++
			}
		}

		ch, reason := c.chain(r, hosts, false)
		if reason == "" {
			reason = c.differs(r, hosts)
		}
		if c.Expected.Passed == nil {
			reason = "Nova raised"
		}
		if reason != "" {
			together[reason]++
			continue
		}
		got := ask(t, tableOf(ch.hosts, nil), ch.hosts, &schedule.Query{Request: r, Rules: c.rules(ch.names, nil)})
		if compareSets(t, c.ID+" passed", got, c.Expected.Passed) {
			together.agree(ch, hosts)
		}
	}
	t.Logf("filters alone:%v", alone)
	t.Logf("chains:%v", together)
	need(t, "filters alone", alone[schedule.ComputeFilter+" alone agrees"], 570)
	need(t, "chains", together["AGREE"], 490)
}

// TestGoldenWeights compares order, weights and raw values of one table's answer.
func TestGoldenWeights(t *testing.T) {
	counts := tally{}
	for _, c := range loadGolden(t) {
		r, hosts := c.start(t, counts)
		if r == nil {
			continue
		}
		ch, rules, reason := c.qualify(r, hosts, false)
		if reason != "" {
			counts[reason]++
			continue
		}
		got := ask(t, tableOf(ch.hosts, nil), ch.hosts, &schedule.Query{Request: r, Rules: rules})
		if err := c.compareWeights(got, rules); err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		counts.agree(ch, hosts)
	}
	t.Logf("weights:%v", counts)
	need(t, "weights", counts["AGREE"], 365)
}

// need fails when fewer cases than the bundled file is known to have were
// compared: a suite that ran nothing must not look green.
func need(t *testing.T, what string, got, atLeast int) {
	t.Helper()
	if !bundled() {
		return
	}
	if got < atLeast {
		t.Errorf("%s: %d agreed, at least %d were to", what, got, atLeast)
	}
}

// start gives request and hosts of a case that can be used.
func (c *goldenCase) start(t *testing.T, counts tally) (*schedule.Request, []goldenHost) {
	t.Helper()
	if c.Expected.Error != nil && c.Expected.Error.Stage == "host_states" {
		counts["Nova raised"]++
		return nil, nil
	}
	hosts, err := c.hosts()
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	r, stripped, reason := c.translate()
	if reason == "" && shared(hosts) {
		reason = "nodes that share their instances"
	}
	if reason != "" {
		counts[reason]++
		return nil, nil
	}
	if stripped {
		counts["(of all) asked for what only missing filters read"]++
	}
	return r, hosts
}

// qualify gives the rules of a case whose picks can be compared.
func (c *goldenCase) qualify(r *schedule.Request, hosts []goldenHost, sequence bool) (chain, *schedule.Rules, string) {
	if c.Expected.Error != nil {
		return chain{}, nil, "Nova raised"
	}
	ch, reason := c.chain(r, hosts, sequence)
	if reason == "" {
		reason = c.differs(r, hosts)
	}
	if reason != "" {
		return ch, nil, reason
	}
	weighed := ch.hosts // In a sequence a pick may change which hosts pass.
	if !sequence {
		weighed = slices.DeleteFunc(slices.Clone(weighed), func(h goldenHost) bool {
			return !slices.Contains(c.Expected.Passed, h.key)
		})
	}
	weighers, reason := c.weighers(weighed)
	return ch, c.rules(ch.names, weighers), reason
}

func (c *goldenCase) rules(filters []string, weighers []schedule.Weigher) *schedule.Rules {
	if weighers == nil {
		weighers = []schedule.Weigher{}
	}
	return &schedule.Rules{
		Filters:                 filters,
		Weighers:                weighers,
		DefaultAvailabilityZone: c.Config.Default.Zone,
	}
}

// tableOf builds the table of the hosts that are in; of all when in is nil.
func tableOf(hosts []goldenHost, in func(i int) bool) *schedule.Table {
	e := schedule.NewTable().Edit()
	for i, h := range hosts {
		if in != nil && !in(i) {
			continue
		}
		e.PutHost(h.Host)
		for _, id := range h.instances {
			e.PutConsumer(h.UUID, schedule.Consumer{Instance: id})
		}
	}
	return e.Table()
}

// answered is a candidate under the name the golden cases have for it.
type answered struct {
	key string
	schedule.Candidate
}

func ask(t *testing.T, table *schedule.Table, hosts []goldenHost, q *schedule.Query) []answered {
	t.Helper()
	q.Limit = len(hosts)
	p, err := table.Propose(q)
	if err != nil {
		t.Fatal(err)
	}
	names := map[schedule.ID]string{}
	for _, h := range hosts {
		names[h.UUID] = h.key
	}
	var out []answered
	for _, c := range p.Candidates {
		out = append(out, answered{names[c.Host], c})
	}
	if len(out) != p.Passed {
		t.Errorf("%d candidates of %d that passed", len(out), p.Passed)
	}
	return out
}

func compareSets(t *testing.T, what string, got []answered, want []string) bool {
	t.Helper()
	set := map[string]bool{}
	for _, a := range got {
		set[a.key] = true
	}
	wanted := map[string]bool{}
	for _, w := range want {
		wanted[w] = true
	}
	if maps.Equal(set, wanted) {
		return true
	}
	t.Errorf("%s:\n got %v\nwant %v", what, slices.Sorted(maps.Keys(set)), slices.Sorted(maps.Keys(wanted)))
	return false
}

// compareWeights checks the order up to ties, the weights and the raw values.
func (c *goldenCase) compareWeights(got []answered, rules *schedule.Rules) error {
	want := c.Expected.Weighed
	if len(got) != len(want) {
		return fmt.Errorf("%d hosts passed, want %d", len(got), len(want))
	}
	at := map[string]int{}
	for i, w := range want {
		key := w.Host
		if c.HostKey == "host/node" {
			key += "/" + w.Node
		}
		at[key] = i
	}
	for i, g := range got {
		j, ok := at[g.key]
		if !ok {
			return fmt.Errorf("%s passed and was not to", g.key)
		}
		w := want[j]
		if !near(g.Weight, w.Weight) {
			return fmt.Errorf("%s: weight %v, want %v", g.key, g.Weight, w.Weight)
		}
		if !near(w.Weight, want[i].Weight) {
			return fmt.Errorf("place %d: %s of weight %v, want %s of %v", i, g.key, g.Weight, want[i].Host, want[i].Weight)
		}
		if len(w.Raw) == 0 {
			continue
		}
		for k, weigher := range rules.Weighers {
			if !near(g.Raw[k], w.Raw[weigher.Name]) {
				return fmt.Errorf("%s: raw %s %v, want %v", g.key, weigher.Name, g.Raw[k], w.Raw[weigher.Name])
			}
		}
	}
	return nil
}

// near is the golden cases' own notion of equal weights.
func near(a, b float64) bool {
	d := math.Abs(a - b)
	m := max(math.Abs(a), math.Abs(b))
	return d <= 1e-9*max(1, m) || d <= 16*(math.Nextafter(m, math.Inf(1))-m)
}
