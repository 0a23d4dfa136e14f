package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/norace"
)

// Each step of a forecast equals the table's answer about the candidate after the pick. Rest has the bounds of all
// other hosts that pass.
func TestForecast_EachStep_IsWhatTheTableSaysThen(t *testing.T) {
	norace.Skip(t, norace.Pure)
	propChecks(t, 1500)
	var steps, full, several, withTree int
	rapid.Check(t, func(t *rapid.T) {
		sc := drawScenario(t)
		if sometimes(t, 2, "without group") {
			sc.Request.Group = nil
		}
		trees := sometimes(t, 2, "child providers count")
		if trees {
			sc.Request.Tree = &Tree{}
		}
		e := NewTable().Edit()
		for i, h := range sc.Hosts {
			if trees && i%3 == 0 {
				h.Children = []Provider{{UUID: testID('c', i), Parent: h.UUID, Resources: h.Resources}}
			}
			e.PutHost(h)
		}
		for _, x := range sc.consumers {
			x.put(e)
		}
		table := e.Table()
		q := &Query{Request: sc.Request, Rules: sc.Rules, Seed: sc.Seed, Limit: 8, Forecast: evenly(1, 12).Draw(t, "picks")}
		p := propose(t, table, q)
		if p.Forecast == nil {
			return
		}
		if q.Request.Group != nil || len(p.Forecast.Steps) > q.Forecast {
			t.Fatalf("%d steps, %d were wanted; group %v", len(p.Forecast.Steps), q.Forecast, q.Request.Group)
		}
		all := *q
		all.Limit, all.Forecast = len(sc.Hosts), 0
		var picked []ID
		withTree += bit2int(trees)
		for i, step := range p.Forecast.Steps {
			of := p.Candidates[step.At]
			all.TentativePlacements = append(all.TentativePlacements, TentativePlacement{Host: of.Host, Instance: testID('i', i)})
			several += bit2int(slices.Contains(picked, of.Host))
			picked = append(picked, of.Host)
			now := propose(t, table, &all).Candidates
			at := slices.IndexFunc(now, func(c Candidate) bool { return c.Host == of.Host })
			if step.Passes != (at >= 0) || step.Passes && !slices.Equal(step.Raw, now[at].Raw) {
				t.Fatalf("step %d: %+v, the table has it at %d of %+v", i, step, at, now)
			}
			steps++
			full += bit2int(!step.Passes)
		}
		rest := make([]Bounds, len(q.Rules.weighers()))
		for i, w := range q.Rules.weighers() {
			rest[i] = NoBounds()
			all.TentativePlacements = nil
			for _, c := range propose(t, table, &all).Candidates {
				if !slices.Contains(picked, c.Host) {
					rest[i].Min, rest[i].Max = min(rest[i].Min, c.Raw[i]), max(rest[i].Max, c.Raw[i])
				}
			}
			if weighers[w.Name].zeroMin && rest[i].Max >= rest[i].Min {
				rest[i].Min = 0
			}
		}
		if !slices.Equal(rest, p.Forecast.Rest) {
			t.Fatalf("the rest has bounds %v, want %v", p.Forecast.Rest, rest)
		}
	})
	t.Logf("%d steps, %d hosts full after one, %d not the first of their host; %d forecasts where child providers count", steps, full, several, withTree)
	if steps == 0 || full == 0 || several == 0 || withTree == 0 {
		t.Error("too few of what the test is about")
	}
}

// BenchmarkForecast measures a warm answer of 1,000 hosts with forecasts of several lengths.
func BenchmarkForecast(b *testing.B) {
	table := (&fleet{hosts: benchHosts(1000)}).table()
	known := &GlobalStats{Bounds: propose(b, table, benchQuery()).Bounds, Passed: 1000}
	for _, n := range []int{0, 1, 2, 4, 16} {
		b.Run(map[int]string{0: "none", 1: "1", 2: "2", 4: "4", 16: "16"}[n], func(b *testing.B) {
			q := benchQuery()
			q.Known, q.Limit, q.Forecast = known, 4+n, n
			cache := NewFilterCache(q.Request, q.Rules)
			p, err := cache.Propose(table, q)
			if err != nil || n > 0 && p.Forecast == nil {
				b.Fatal(p, err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			for b.Loop() {
				q.Seed = rng.Uint64()
				if _, err := cache.Propose(table, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
