package replica

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
	"time"

	"cellgate/cell/proposals"
	"cellgate/internal/expression"
	"cellgate/internal/pgtest"
	"cellgate/internal/testlong"
	"cellgate/schedule"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// With random fleets, claims and requests, a replica that loads its table answers from the hosts
// that its shard finds. The answers equal those of a replica with a table: the same hosts, weights
// and order, also after some hosts are taken.
func TestI6_AColdReplicaAnswersAsAWarmOne(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) {
		coldAgrees(t, openPostgres(t, pgtest.Start(t).NewDatabase(t)), testlong.Or(4, 20))
	})
	t.Run("a naive filter over Pebble", func(t *testing.T) {
		store := newStore(t)
		coldAgrees(t, struct {
			shard.Store
			shard.HostFinder
		}{store, shardtest.NaiveFinder{Store: store}}, testlong.Or(8, 60))
	})
}

func coldAgrees(t *testing.T, store shard.Store, rounds int) {
	a := newAgreement(t, store, 5)
	tried, passed, refused := 0, 0, 0
	for range rounds {
		a.change()
		cold := newColdSearch(cellUUID, agreementHosts, store, proposals.NewVersions(time.Second, 9, time.Now), time.Now, a.writer.log)
		table := a.writer.versions.Current()
		for range 20 {
			q := a.coldQuery()
			at, _, err := cold.Find(t.Context(), q)
			if err != nil {
				t.Fatalf("%+v: %v", q.Request, err)
			}
			n := a.sameAnswers(proposals.Version{Table: table}, at, q)
			tried++
			passed += min(1, n)
			refused += at.Part.Hosts - at.Table.Len()
			if t.Failed() {
				t.Fatalf("for %+v, tree %+v, fallback %+v", q.Request, q.Request.Tree, q.Request.Fallback)
			}
		}
		cold.close()
	}
	if passed < tried/5 || passed > tried*19/20 || refused < tried {
		t.Errorf("of %d requests %d found hosts, and the shard left %d hosts out: they are no test", tried, passed, refused)
	}
}

// sameAnswers asks both versions. It asks again with picks of the first answer taken, and with
// bounds of another cell. It returns how many hosts passed at first.
func (a *agreement) sameAnswers(warm, cold proposals.Version, q *schedule.Query) int {
	passed := 0
	for round := range 3 {
		want, err := warm.Rank(q)
		if err != nil {
			a.t.Fatal(err)
		}
		got, err := cold.Rank(q)
		if err != nil {
			a.t.Fatal(err)
		}
		rejected := 0
		for _, r := range got.Rejects {
			rejected += r.Hosts
		}
		if got.Hosts != want.Hosts || got.Passed != want.Passed || rejected != got.Hosts-got.Passed {
			a.t.Errorf("round %d: %d of %d hosts passed, %d rejected; want %d of %d", round, got.Passed, got.Hosts, rejected, want.Passed, want.Hosts)
		}
		if !reflect.DeepEqual(got.Bounds, want.Bounds) || !reflect.DeepEqual(got.Multipliers, want.Multipliers) {
			a.t.Errorf("round %d: bounds %v %v, want %v %v", round, got.Bounds, got.Multipliers, want.Bounds, want.Multipliers)
		}
		if !reflect.DeepEqual(got.Candidates, want.Candidates) {
			a.t.Errorf("round %d: candidates\n%+v, want\n%+v", round, got.Candidates, want.Candidates)
		}
		if round == 0 {
			passed = want.Passed
		}
		if len(want.Candidates) == 0 {
			break
		}
		pick := want.Candidates[a.rng.IntN(len(want.Candidates))].Host
		q.TentativePlacements = append(q.TentativePlacements, schedule.TentativePlacement{Host: pick, Instance: schedule.ID{0xee, byte(round)}})
		q.Known = &schedule.GlobalStats{Bounds: slices.Clone(want.Bounds), Passed: int64(want.Passed + 1)}
		q.Known.Bounds[0].Max++
	}
	return passed
}

// coldQuery returns a request like those of compare, with trees, host lists and later rounds, under
// all filters and weighers.
func (a *agreement) coldQuery() *schedule.Query {
	r := a.request()
	q := &schedule.Query{
		Request: r, Limit: 1 + a.rng.IntN(agreementHosts), Seed: a.rng.Uint64(),
		Rules: &schedule.Rules{DefaultAvailabilityZone: pick(a.rng, []string{"nova", "az1"})},
	}
	if a.rng.IntN(3) == 0 {
		r.Fallback = &schedule.Fallback{
			Resources: slices.Clone(r.Resources), Required: a.some(r.Required), Forbidden: a.some(r.Forbidden),
		}
		if n := len(r.Resources); n > 0 && a.rng.IntN(2) == 0 {
			r.Fallback.Resources[n-1].Class = "CUSTOM_FPGA"
		}
	}
	if a.rng.IntN(2) == 0 {
		r.Tree = &schedule.Tree{Required: a.some(r.Required), Forbidden: a.some(r.Forbidden)}
		r.Tree.Both = a.some(slices.Concat(r.Tree.Required, r.Tree.Forbidden))
		if a.rng.IntN(2) == 0 {
			r.Tree.Groups = []schedule.ResourceGroup{{Suffix: "1", Resources: []schedule.Amount{{Class: "CUSTOM_FPGA", N: 1}}}}
		}
	}
	if a.rng.IntN(4) == 0 {
		r.IgnoreHosts = []string{a.writer.rows.ServiceHost(a.anyHost()), "HOST-0003"}
	}
	switch a.rng.IntN(8) {
	case 0:
		r.ForceHosts = []string{a.writer.rows.ServiceHost(a.anyHost()), "HOST-0007", "host-0009"}
	case 1:
		r.Destination = &schedule.Destination{Host: a.writer.rows.ServiceHost(a.anyHost())}
	}
	if a.rng.IntN(3) == 0 {
		q.Rules.Filters = append(a.some([]string{
			schedule.ZoneFilter, schedule.AggregateFilter, schedule.TraitFilter, schedule.ResourceFilter, schedule.CapabilitiesFilter,
		}), schedule.ComputeFilter, schedule.IoOpsFilter)
	}
	if a.rng.IntN(4) == 0 {
		asked, err := expression.Compile(pick(a.rng, []string{`facts.cinder.free_gb > 50`, `!has(facts.cinder)`, `host.free.VCPU > 20`}))
		if err != nil {
			a.t.Fatal(err)
		}
		r.Expression = asked
		if q.Rules.Filters == nil {
			q.Rules.Filters = schedule.DefaultFilters()
		}
		q.Rules.Filters = append(q.Rules.Filters, schedule.ExpressionFilter)
	}
	if a.rng.IntN(3) == 0 {
		q.Rules.Weighers = schedule.PackWeighers()
	}
	if a.rng.IntN(4) == 0 {
		asked, err := expression.Compile(`!has(facts.cinder) || facts.cinder.free_gb > 20`)
		if err != nil {
			a.t.Fatal(err)
		}
		q.Rules.Expression = asked
		if q.Rules.Filters == nil {
			q.Rules.Filters = schedule.DefaultFilters()
		}
		q.Rules.Filters = append(q.Rules.Filters, schedule.ConfiguredExpressionFilter)
	}
	return q
}

func (a *agreement) anyHost() string {
	all := a.writer.rows.HostsInService()
	slices.SortFunc(all, func(a, b *HostRow) int { return cmp.Compare(a.Host.UUID, b.Host.UUID) })
	return all[a.rng.IntN(len(all))].Host.UUID
}
