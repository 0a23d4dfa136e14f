package nova

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cellgate/schedule"
	"cellgate/schedule/merge"
)

// splits is how many random splits into cells each case is planned over.
const splits = 12

// TestI5_GoldenSequences splits the hosts of each case at random into one to five cells. The plan
// over these cells must pick what Nova picked from all hosts. A case without a sequence is a
// sequence of one.
func TestI5_GoldenSequences(t *testing.T) {
	all := replayCases(t, loadGolden(t), splits)
	if bundled() && (all.scoreOf("sequences").cases < 50*splits || all.scoreOf("single picks").cases < 480*splits) {
		t.Errorf("only %d sequences and %d single picks were compared",
			all.scoreOf("sequences").cases/splits, all.scoreOf("single picks").cases/splits)
	}
}

// replayCases plans every case over so many splits, and fails if the picks are not Nova's.
func replayCases(t *testing.T, cases []*goldenCase, splits uint64) scores {
	t.Helper()
	all := scores{}
	replayInto(t, all, cases, splits)
	all.settle(t)
	return all
}

func replayInto(t *testing.T, all scores, cases []*goldenCase, splits uint64) {
	t.Helper()
	oneRound, plans := 0, 0
	for n, c := range cases {
		if c.Expected.Error != nil {
			continue
		}
		name := "single picks"
		if c.Expected.Sequence != nil {
			name = "sequences"
		}
		var p replay
		reason := ""
		err := guarded(t, func() (err error) {
			p, reason, err = c.replay()
			return err
		})
		if err != nil {
			all.count(t, name, c.ID, true, err)
			continue
		}
		if reason != "" {
			all.scoreOf(name+": "+reason).notYet++
			continue
		}
		for seed := range splits {
			p.rnd, p.seed = rand.New(rand.NewPCG(uint64(n), seed)), seed
			err := guarded(t, p.run)
			all.count(t, name, fmt.Sprintf("%s, split %d", c.ID, seed), true, err)
		}
		plans += p.plans
		oneRound += p.oneRound
	}
	t.Logf("plans: %d, first pick in one round: %d", plans, oneRound)
}

// replay prepares a case. reason says why the case cannot be planned; "": it can.
func (c *goldenCase) replay() (p replay, reason string, err error) {
	hosts, err := c.hosts()
	if err != nil {
		return p, "", err
	}
	r, _, err := c.translate()
	if err != nil {
		return p, "", fmt.Errorf("translation: %w", err)
	}
	ch, err := c.chain(r, hosts)
	if err != nil {
		return p, err.Error(), nil
	}
	weighers, _ := c.weighers()
	return replay{c: c, r: r, rules: c.rules(ch.names, weighers), hosts: ch.hosts}, "", nil
}

// replay plans a case over one split. If weights tie, it continues from Nova's pick.
type replay struct {
	c     *goldenCase
	r     *schedule.Request
	rules *schedule.Rules
	hosts []goldenHost
	rnd   *rand.Rand
	seed  uint64

	cells    []int
	plans    int
	oneRound int
}

func (p *replay) run() error {
	want, instances := p.wanted()
	n := 1 + p.rnd.IntN(5)
	p.cells = p.cells[:0]
	for range p.hosts {
		p.cells = append(p.cells, p.rnd.IntN(n))
	}
	hosts, r := p.hosts, *p.r
	for done := 0; done < len(instances); {
		// Nova asks for one instance after the other. Here the rest is one request, unless an
		// instance is on a host already and may stay there.
		batch := instances[done:]
		r.Moving = schedule.ID{}
		if p.on(batch) {
			batch = batch[:1]
			r.Moving = batch[0]
		}
		plan := p.plan
		if p.c.cells != nil && done == 0 {
			plan = p.planCells
		}
		got, err := plan(n, hosts, &r, batch)
		switch {
		case err != nil:
			return err
		case done == len(want) && len(got) == 0:
			return nil // Nova found no host for this instance, either
		case done == len(want):
			return fmt.Errorf("instance %d on %s, want none", done, got[0])
		case len(got) == 0:
			return fmt.Errorf("instance %d has no host, want %s", done, want[done])
		}
		for i := 0; i < len(got) && done < len(want); i++ {
			w := want[done]
			if got[i] != w && !p.tied(hosts, &r, got[i], w) {
				return fmt.Errorf("instance %d on %s, want %s (picked from there: %v, want: %v)",
					done, got[i], w, got[i:], want[done:])
			}
			hosts, r = follow(hosts, r, w, instances[done])
			done++
			if got[i] != w {
				break // another host of equal weight: plan on from Nova's pick
			}
		}
	}
	return nil
}

// on reports whether any of the instances is on a host from the start.
func (p *replay) on(instances []schedule.ID) bool {
	return slices.ContainsFunc(p.hosts, func(h goldenHost) bool {
		return slices.ContainsFunc(h.instances, func(i schedule.ID) bool { return slices.Contains(instances, i) })
	})
}

// wanted gives Nova's picks and the instances asked for.
func (p *replay) wanted() (picks []string, instances []schedule.ID) {
	if s := p.c.Expected.Sequence; s != nil {
		for _, u := range p.c.InstanceUUIDs {
			id, err := schedule.ParseID(u)
			if err != nil {
				panic(err)
			}
			instances = append(instances, id)
		}
		return s.Hosts, instances
	}
	// If the request names no instance, any id will do.
	id := schedule.ID{1}
	if text, named := p.c.spec()["instance_uuid"].(string); named {
		id = mustID(text)
	}
	for _, w := range p.c.Expected.Weighed[:min(1, len(p.c.Expected.Weighed))] {
		key := w.Host
		if p.c.HostKey == "host/node" {
			key += "/" + w.Node
		}
		picks = append(picks, key)
	}
	return picks, []schedule.ID{id}
}

// plan runs the plan over n tables, and gives the names of the picked hosts.
func (p *replay) plan(n int, hosts []goldenHost, r *schedule.Request, instances []schedule.ID) ([]string, error) {
	tables := make([]*schedule.Table, n)
	names := map[schedule.ID]string{}
	for cell := range tables {
		tables[cell] = tableOf(hosts, func(i int) bool { return p.cells[i] == cell })
	}
	for _, h := range hosts {
		names[h.UUID] = h.key
	}
	return p.drive(n, names, r, instances, func(cell int, q *schedule.Query) (*schedule.Proposal, error) { return tables[cell].Propose(q) })
}

// planCells runs the plan over the case's own cells.
func (p *replay) planCells(_ int, hosts []goldenHost, r *schedule.Request, instances []schedule.ID) ([]string, error) {
	names := map[schedule.ID]string{}
	for _, h := range hosts {
		names[h.UUID] = h.key
	}
	return p.drive(len(p.c.cells), names, r, instances, func(cell int, q *schedule.Query) (*schedule.Proposal, error) { return p.c.cells[cell](q) })
}

// drive runs the plan over n cells, and gives the names of the picked hosts.
func (p *replay) drive(n int, names map[schedule.ID]string, r *schedule.Request, instances []schedule.ID, ask func(int, *schedule.Query) (*schedule.Proposal, error)) ([]string, error) {
	plan := merge.NewPlan(merge.Config{
		Request: r, Rules: p.rules, Seed: p.seed, Instances: instances, Cells: n, MaxRounds: 8,
	})
	for asks := plan.Next(); len(asks) > 0; asks = plan.Next() {
		for _, a := range asks {
			pr, err := ask(a.Cell, &a.Query)
			if err != nil {
				return nil, err
			}
			if err := plan.Answer(a.Cell, pr); err != nil {
				return nil, err
			}
		}
	}
	res := plan.Result()
	p.plans++
	if res.Rounds == 1 {
		p.oneRound++
	}
	if !res.Exact {
		return nil, fmt.Errorf("the plan is not exact")
	}
	var picks []string
	for _, x := range res.Picks {
		picks = append(picks, names[x.Candidate.Host])
	}
	return picks, nil
}

// follow consumes Nova's pick on its host, as Nova does.
func follow(hosts []goldenHost, r schedule.Request, key string, instance schedule.ID) ([]goldenHost, schedule.Request) {
	hosts = slices.Clone(hosts)
	for i := range hosts {
		h := &hosts[i]
		if h.key != key {
			continue
		}
		h.View.VCPUsUsed += r.Consume.VCPUs
		h.View.FreeRAMMB -= r.Consume.RAMMB
		h.View.FreeDiskMB -= r.Consume.DiskMB
		h.View.NumInstances++
		h.View.NumIOOps++
		consumeHardware(h, &r, instance)
		if r.Group != nil {
			h.instances = append(slices.Clone(h.instances), instance)
			g := *r.Group
			g.Hosts = append(slices.Clone(g.Hosts), h.ServiceHost)
			r.Group = &g
			r.Nova = withoutHint(r.Nova, instance)
		}
	}
	return hosts, r
}

// withoutHint takes a picked instance out of the hints. Nova runs the filters that read different_host and
// same_host once for a request, before any pick.
func withoutHint(n *schedule.NovaRequest, instance schedule.ID) *schedule.NovaRequest {
	left := *n
	left.Hints = slices.Clone(n.Hints)
	for i, h := range left.Hints {
		left.Hints[i].Values = slices.DeleteFunc(slices.Clone(h.Values), func(v string) bool { return v == instance.String() })
	}
	return &left
}

// consumeHardware takes NUMA cells and devices by the core's own rules, since a golden case does
// not tell which ones Nova took.
func consumeHardware(h *goldenHost, r *schedule.Request, instance schedule.ID) {
	if r.Nova.NUMA == nil && len(r.Nova.PCI) == 0 {
		return
	}
	e := schedule.NewTable().Edit()
	e.PutHost(h.Host)
	e.Take(schedule.TentativePlacement{Host: h.UUID, Instance: instance}, r)
	after, _ := e.Table().Host(h.UUID)
	if after.View.NumIOOps == h.View.NumIOOps {
		h.View.NumIOOps-- // devices are missing: Nova raised before it counted the operation
	}
	h.Facts, h.View.PCIFree = after.Facts, after.View.PCIFree
}

// tied reports whether the two hosts have the same weight, or are both in the subset that Nova
// draws from.
func (p *replay) tied(hosts []goldenHost, r *schedule.Request, a, b string) bool {
	pr, err := tableOf(hosts, nil).Propose(&schedule.Query{
		Request: r, Rules: p.rules, Seed: p.seed, Limit: len(hosts),
	})
	if err != nil {
		return false
	}
	weights := map[string]float64{}
	for _, c := range pr.Candidates {
		for _, h := range hosts {
			if h.UUID == c.Host {
				weights[h.key] = c.Weight
			}
		}
	}
	wa, oka := weights[a]
	wb, okb := weights[b]
	if n := p.rules.Options.SubsetSize; oka && okb && n > 1 {
		least := pr.Candidates[min(n, len(pr.Candidates))-1].Weight
		return min(wa, wb) >= least || near(min(wa, wb), least)
	}
	return oka && okb && near(wa, wb)
}
