package nova

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"cellgate/schedule"
)

// bundled reports whether the bundled cases are compared.
func bundled() bool { return os.Getenv("CELLGATE_GOLDEN") == "" }

// score counts the cases of one subject: a filter, a weigher, or whole requests.
type score struct {
	cases, agree int
	// rejecting counts the cases that prove something: Nova's filter rejects a host, or raw weights
	// differ.
	rejecting int
	// notYet counts the cases that were not compared because the core lacks a filter, or that were
	// compared with Nova's answer for that filter.
	notYet int
	first  string // the first disagreement
}

// scores gives the score of each subject by name.
type scores map[string]*score

func (s scores) scoreOf(name string) *score {
	if s[name] == nil {
		s[name] = &score{}
	}
	return s[name]
}

// count adds a comparison. says: it proves something. err is the disagreement; nil: they agree.
func (s scores) count(t *testing.T, name, id string, says bool, err error) {
	t.Helper()
	x := s.scoreOf(name)
	x.cases++
	if says {
		x.rejecting++
	}
	if err == nil {
		x.agree++
		return
	}
	if x.first == "" {
		x.first = id + ": " + err.Error()
	}
	// One line for each disagreement helps users who compare a file of their own.
	t.Logf("%s: %s: %v", name, id, err)
}

func (s scores) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s)) {
		x := s[name]
		fmt.Fprintf(&b, "\n  %-36s %4d of %4d agree, %4d say something", name, x.agree, x.cases, x.rejecting)
		if x.notYet > 0 {
			fmt.Fprintf(&b, ", %d not yet", x.notYet)
		}
		if x.first != "" {
			fmt.Fprintf(&b, "; first: %s", x.first)
		}
	}
	return b.String()
}

// settle fails the test for every subject with a disagreement.
func (s scores) settle(t *testing.T) {
	t.Helper()
	t.Logf("%d things compared:%v", len(s), s)
	for _, name := range slices.Sorted(maps.Keys(s)) {
		x := s[name]
		if x.agree < x.cases {
			t.Errorf("%s: %d of %d disagree; the first is %s", name, x.cases-x.agree, x.cases, x.first)
		}
	}
}

// complete fails the test if a subject was never compared.
func (s scores) complete(t *testing.T) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if x := s[name]; x.cases == 0 && x.notYet == 0 {
			t.Errorf("%s: no case", name)
		}
	}
}

// TestGolden compares for every case: hosts and their states, each filter alone, the enabled
// filters together, weights, order, raw weights, picks, and errors. Picks are planned over one
// random split into cells; TestI5_GoldenSequences tries more splits. CELLGATE_GOLDEN names another
// file.
func TestGolden(t *testing.T) {
	all := scoresOf(t, cmp.Or(os.Getenv("CELLGATE_GOLDEN"), bundledGolden), loadGolden(t))
	all.settle(t)
	if bundled() {
		all.complete(t)
		if n := all.scoreOf("(cases)").cases; n != 600 {
			t.Errorf("%d cases, 600 are bundled", n)
		}
	}
}

func goldenScores(t *testing.T, cases []*goldenCase) scores {
	t.Helper()
	all := scores{}
	for _, f := range filtersAlone {
		all.scoreOf(f)
	}
	for _, c := range cases {
		g := goldenRun{T: t, c: c, all: all}
		all.count(t, "(cases)", c.ID, true, guarded(t, g.run))
		if g.partly {
			all.scoreOf("(cases)").notYet++
		}
	}
	replayInto(t, all, cases, 1)
	return all
}

// scored caches goldenScores by file, since TestParity reports the same comparisons as other tests.
var scored = map[string]scores{}

// scoresOf gives the goldenScores of a file's cases, computed once.
func scoresOf(t *testing.T, file string, cases []*goldenCase) scores {
	t.Helper()
	if scored[file] == nil {
		scored[file] = goldenScores(t, cases)
	}
	return scored[file]
}

// guarded returns a panic as an error, so that a case of an unforeseen form does not keep the
// others from being compared.
func guarded(t *testing.T, run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			t.Logf("%v\n%s", p, debug.Stack())
			err = fmt.Errorf("comparing it panics: %v", p)
		}
	}()
	return run()
}

// goldenRun is the comparison of one case.
type goldenRun struct {
	*testing.T
	c       *goldenCase
	all     scores
	r       *schedule.Request
	hosts   []goldenHost
	refused []string
	// partly: a missing filter's answer was taken from the case, or its consequences were not
	// compared.
	partly bool
}

// run compares the case, and returns the first disagreement.
func (g *goldenRun) run() error {
	var err error
	if g.hosts, err = g.c.hosts(); err != nil {
		return err
	}
	if err := g.note("(names)", true, g.c.unknown()); err != nil {
		return err
	}
	if g.r, g.refused, err = g.c.translate(); err != nil {
		return fmt.Errorf("translation: %w", err)
	}
	// The rest is compared without the refused parts, but the case does not agree.
	var refusal error
	if len(g.refused) > 0 {
		refusal = fmt.Errorf("the request is refused for %s", strings.Join(g.refused, ", "))
	}
	if err := g.note("(accepted)", true, refusal); err != nil {
		return err
	}
	if e := g.c.Expected.Error; e != nil && e.Stage == schedule.StageHostStates {
		err := g.raises(e, g.c.rules([]string{schedule.HostFilter}, nil))
		if err != nil && g.failsAs(e) {
			err = nil // Nova may read any of the bad rows first
		}
		return g.note("(host states raise)", true, err)
	}
	if got := keys(g.hosts); !slices.Equal(got, g.c.Expected.Hosts) {
		err = fmt.Errorf("hosts %v, want %v", got, g.c.Expected.Hosts)
	}
	bad := g.note("(hosts)", true, err)
	if g.c.Expected.HostStates != nil {
		if err := g.note("(host states)", true, g.states()); err != nil && bad == nil {
			bad = err
		}
	}
	for _, step := range []func() error{g.alone, g.together} {
		if err := step(); err != nil && bad == nil {
			bad = err
		}
	}
	return bad
}

// states compares the hosts made from the rows with Nova's host states.
func (g *goldenRun) states() error {
	for _, want := range g.c.Expected.HostStates {
		i := slices.IndexFunc(g.hosts, func(h goldenHost) bool { return h.key == want.Host && h.Cell == want.CellUUID })
		if i < 0 {
			return fmt.Errorf("there is no host %s in cell %s", want.Host, want.CellUUID)
		}
		h := &g.hosts[i]
		got := want
		v := &h.View
		got.FreeRAMMB, got.FreeDiskMB, got.VCPUsTotal, got.VCPUsUsed = v.FreeRAMMB, v.FreeDiskMB, v.VCPUsTotal, v.VCPUsUsed
		got.TotalRAMMB, got.TotalDiskGB, got.DiskUsedMB = v.TotalRAMMB, v.TotalDiskGB, v.DiskUsedMB
		got.CPURatio, got.RAMRatio, got.DiskRatio = v.CPURatio, v.RAMRatio, v.DiskRatio
		got.Instances, got.IOOps, got.FailedBuilds = v.NumInstances, v.NumIOOps, v.FailedBuilds
		got.Aggregates, got.Running = []string{}, []string{}
		for _, a := range h.Aggregates {
			got.Aggregates = append(got.Aggregates, a.Name)
		}
		for _, id := range h.instances {
			got.Running = append(got.Running, id.String())
		}
		for _, list := range [][]string{got.Aggregates, got.Running, want.Aggregates, want.Running} {
			slices.Sort(list)
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("host state %+v, want %+v", got, want)
		}
	}
	return nil
}

// failsAs reports whether reading the row of any host raises the exception.
func (g *goldenRun) failsAs(want *goldenError) bool {
	return slices.ContainsFunc(g.hosts, func(h goldenHost) bool {
		for field, exception := range h.Facts.Failed {
			class, message, _ := strings.Cut(exception, ": ")
			if class == want.Class && want.isNovaMessage(field+": "+message) {
				return true
			}
		}
		return false
	})
}

// isNovaMessage reports whether a message is Nova's. For an unreadable row, the column and key may
// precede Nova's message.
func (e *goldenError) isNovaMessage(message string) bool {
	return e.reworded || message == e.Message || e.Stage == schedule.StageHostStates && strings.HasSuffix(message, ": "+e.Message)
}

func (g *goldenRun) note(name string, says bool, err error) error {
	g.all.count(g.T, name, g.c.ID, says, err)
	return err
}

func keys(hosts []goldenHost) []string {
	out := []string{}
	for _, h := range hosts {
		out = append(out, h.key)
	}
	return out
}

// alone runs each filter alone over all hosts, without the request's restrictions to hosts.
func (g *goldenRun) alone() (bad error) {
	free := *g.r
	free.IgnoreHosts, free.ForceHosts, free.ForceNodes, free.Destination = nil, nil, nil, nil
	table := tableOf(g.hosts, nil)
	one := func(q *schedule.Query) (answer, error) {
		if g.c.cells != nil {
			return askCells(g.c.cells, g.hosts, q)
		}
		return ask(table, g.hosts, q)
	}
	for _, f := range g.c.tried() {
		want, listed := g.c.Expected.PerFilter[f]
		raised, raises := g.c.Expected.PerFilterError[f]
		if !there(f) {
			g.all.scoreOf(f).notYet++
			continue
		}
		if !listed {
			want = g.c.Expected.Hosts
		}
		got, err := one(&schedule.Query{Request: &free, Rules: g.c.rules([]string{f}, nil)})
		if err == nil && raises {
			err = sameError(&raised, got.raised)
		} else if err == nil {
			err = sameSet(got, want)
		}
		if err := g.note(f, raises || len(want) < len(g.hosts), err); err != nil && bad == nil {
			bad = fmt.Errorf("%s: %w", f, err)
		}
	}
	return bad
}

// together runs the enabled filters, and then the weighers.
func (g *goldenRun) together() error {
	ch, err := g.c.chain(g.r, g.hosts)
	if g.partly = err != nil || len(ch.missing) > 0; g.partly {
		g.all.scoreOf("(together)").notYet++
	}
	if err != nil {
		return nil
	}
	weighers, missing := g.c.weighers()
	if missing != "" {
		return fmt.Errorf("there is no weigher %s", missing)
	}
	rules := g.c.rules(ch.names, weighers)
	if e := g.c.Expected.Error; e != nil {
		return g.note("(raise)", true, g.raises(e, rules))
	}
	got, err := g.ask(ch.hosts, &schedule.Query{Request: g.r, Rules: rules})
	if err == nil && got.raised != nil {
		err = got.raised
	}
	if err == nil {
		err = sameSet(got, g.c.Expected.Passed)
	}
	if err := g.note("(together)", len(g.c.Expected.Passed) < len(g.hosts), err); err != nil {
		return err
	}
	if g.c.Expected.Limits != nil {
		if err := g.note("(limits)", true, g.limits(got)); err != nil {
			return err
		}
	}
	err = g.weights(got, rules)
	if bad := g.note("(weights and order)", len(got.hosts) > 1, err); bad != nil {
		return bad
	}
	return nil
}

// limits compares the limits that the filters set for hosts that passed.
func (g *goldenRun) limits(got answer) error {
	for _, h := range got.hosts {
		var have goldenLimits
		if l := h.Limits; l != nil {
			have = goldenLimits{l.VCPUs, l.MemoryMB, l.DiskGB}
		}
		if want := g.c.Expected.Limits[h.key]; !reflect.DeepEqual(have, want) {
			return fmt.Errorf("%s: limits %s, want %s", h.key, have, want)
		}
	}
	return nil
}

func (l goldenLimits) String() string {
	var b strings.Builder
	for _, x := range []struct {
		name string
		n    *int64
	}{{"vcpu", l.VCPUs}, {"memory_mb", l.MemoryMB}, {"disk_gb", l.DiskGB}} {
		if x.n != nil {
			fmt.Fprintf(&b, "%s %d ", x.name, *x.n)
		}
	}
	return "{" + strings.TrimSpace(b.String()) + "}"
}

// raises compares Nova's exception with the core's.
func (g *goldenRun) raises(want *goldenError, rules *schedule.Rules) error {
	got, err := g.ask(g.hosts, &schedule.Query{Request: g.r, Rules: rules})
	if err != nil {
		return err
	}
	return sameError(want, got.raised)
}

// ask asks the hosts' own cells, or one table of the hosts.
func (g *goldenRun) ask(hosts []goldenHost, q *schedule.Query) (answer, error) {
	if g.c.cells != nil && len(hosts) == len(g.hosts) {
		return askCells(g.c.cells, hosts, q)
	}
	return ask(tableOf(hosts, nil), hosts, q)
}

func sameError(want *goldenError, got *schedule.NovaException) error {
	switch {
	case got == nil:
		return fmt.Errorf("nothing is raised, want %s: %s", want.Class, want.Message)
	case !want.isNovaMessage(got.Message):
		return fmt.Errorf("raises %s, want %s: %s", got, want.Class, want.Message)
	case want.Class != got.Class || want.Stage != "" && want.Stage != got.Stage:
		return fmt.Errorf("raises %s (%s), want %s: %s (%s)", got, got.Stage, want.Class, want.Message, want.Stage)
	}
	return nil
}

// weights compares order up to ties, weights, and the raw weights of each weigher.
func (g *goldenRun) weights(got answer, rules *schedule.Rules) error {
	want := g.c.Expected.Weighed
	switch {
	case len(want) == 0 && len(got.hosts) > 0:
		return errors.New("the case has no weighed")
	case len(want) != len(got.hosts):
		return fmt.Errorf("weighed has %d hosts, want the %d that passed", len(want), len(got.hosts))
	}
	at := map[string]int{}
	for i, w := range want {
		at[g.c.key(w.Host, w.Node)] = i
	}
	raw := map[string]error{}
	var bad error
	for i, h := range got.hosts {
		k, there := at[h.key]
		if !there {
			return fmt.Errorf("weighed does not have %s, which passed", h.key)
		}
		w := want[k]
		if !near(h.Weight, w.Weight) && bad == nil {
			bad = fmt.Errorf("%s: weight %v, want %v", h.key, h.Weight, w.Weight)
		}
		if !near(w.Weight, want[i].Weight) && bad == nil {
			bad = fmt.Errorf("place %d: %s of weight %v, want %s of %v", i, h.key, h.Weight, want[i].Host, want[i].Weight)
		}
		for k, weigher := range rules.Weighers {
			x, ok := w.Raw[weigher.Name]
			switch {
			case raw[weigher.Name] != nil:
			case !ok:
				raw[weigher.Name] = fmt.Errorf("%s: the case has no raw weight", h.key)
			case !near(h.Raw[k], x):
				raw[weigher.Name] = fmt.Errorf("%s: raw %v, want %v", h.key, h.Raw[k], x)
			}
		}
	}
	if len(got.hosts) < 2 {
		return bad // Nova does not weigh a single host
	}
	for k, weigher := range rules.Weighers {
		differ := slices.ContainsFunc(got.hosts, func(h answered) bool { return h.Raw[k] != got.hosts[0].Raw[k] })
		if err := g.note(weigher.Name, differ, raw[weigher.Name]); err != nil && bad == nil {
			bad = fmt.Errorf("%s: %w", weigher.Name, err)
		}
	}
	return bad
}

// key names a host as the case does.
func (c *goldenCase) key(host, node string) string {
	if c.HostKey == "host/node" {
		return host + "/" + node
	}
	return host
}

// tableOf builds a table of the hosts for which in returns true; nil: of all.
func tableOf(hosts []goldenHost, in func(i int) bool) *schedule.Table {
	e := schedule.NewTable().Edit()
	for i, h := range hosts {
		if in != nil && !in(i) {
			continue
		}
		e.PutHost(h.Host)
		for _, id := range h.instances {
			// Nova lists an instance on every node of its service host.
			e.AddConsumer(h.UUID, h.consumer(id))
		}
	}
	return e.Table()
}

// answered is a candidate with its host's name in the golden cases.
type answered struct {
	key string
	schedule.Candidate
}

type answer struct {
	hosts  []answered
	raised *schedule.NovaException
}

func ask(table *schedule.Table, hosts []goldenHost, q *schedule.Query) (answer, error) {
	q.Limit = max(1, len(hosts))
	p, err := table.Propose(q)
	if err != nil {
		return answer{}, err
	}
	names := map[schedule.ID]string{}
	for _, h := range hosts {
		names[h.UUID] = h.key
	}
	a := answer{raised: p.NovaException}
	if a.raised != nil && a.raised.Stage == schedule.StageWeigh && p.Passed <= 1 {
		a.raised = nil
	}
	for _, c := range p.Candidates {
		a.hosts = append(a.hosts, answered{names[c.Host], c})
	}
	if len(a.hosts) != p.Passed {
		return a, fmt.Errorf("%d candidates of %d that passed", len(a.hosts), p.Passed)
	}
	return a, nil
}

func sameSet(got answer, want []string) error {
	if got.raised != nil {
		return got.raised
	}
	set := map[string]bool{}
	for _, a := range got.hosts {
		set[a.key] = true
	}
	wanted := map[string]bool{}
	for _, w := range want {
		wanted[w] = true
	}
	if maps.Equal(set, wanted) {
		return nil
	}
	return fmt.Errorf("passed %v, want %v", slices.Sorted(maps.Keys(set)), slices.Sorted(maps.Keys(wanted)))
}

// near reports whether two weights are equal within the tolerance of the golden cases.
func near(a, b float64) bool {
	d := math.Abs(a - b)
	m := max(math.Abs(a), math.Abs(b))
	return d <= 1e-9*max(1, m) || d <= 16*(math.Nextafter(m, math.Inf(1))-m)
}
