package replica

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/cell/liveness"
	"cellgate/cell/proposals"
	"cellgate/internal/pgtest"
	"cellgate/schedule"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// cockroachURL names a CockroachDB server on which tests can create databases.
const cockroachURL = "CELLGATE_TEST_COCKROACH_URL"

// With random fleets, claims and requests, a database finds exactly the hosts that pass in the
// table of the same rows. That holds for amounts, traits, aggregates, zones and the host's own
// state. With every filter on, the hosts that pass are among those found.
func TestI6_TheSQLFilterAndTheHostTableAgree(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) {
		sourcesAgree(t, "PostgreSQL, filter", openPostgres(t, pgtest.Start(t).NewDatabase(t)))
	})
	t.Run("CockroachDB", func(t *testing.T) {
		server := os.Getenv(cockroachURL)
		if server == "" {
			shardtest.NotRun(t, "CockroachDB, filter", cockroachURL+" is not set")
		}
		sourcesAgree(t, "CockroachDB, filter", openPostgres(t, cockroachDatabase(t, server)))
	})
}

// cockroachDatabase creates a database and drops it at the end of the test.
func cockroachDatabase(t *testing.T, server string) string {
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("cellgate_filter_%d", os.Getpid())
	run := func(sql string) {
		c, err := pgx.Connect(context.Background(), server)
		if err == nil {
			_, err = c.Exec(context.Background(), sql)
			_ = c.Close(context.Background())
		}
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	run("CREATE DATABASE " + name)
	t.Cleanup(func() { run("DROP DATABASE IF EXISTS " + name + " CASCADE") })
	u.Path = "/" + name
	return u.String()
}

func sourcesAgree(t *testing.T, backend string, store shard.Store) {
	seed, rounds := uint64(1), 6
	if os.Getenv("CELLGATE_LONG") != "" {
		rounds = 1000
	}
	if text := os.Getenv("CELLGATE_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	a := newAgreement(t, store, seed)
	var found, none, operations int64
	for round := range rounds {
		operations += int64(a.change())
		for range 25 {
			switch n := a.compare(); {
			case t.Failed():
				t.Fatalf("round %d; CELLGATE_SEED=%d repeats it", round, seed)
			case n == 0:
				none++
			default:
				found++
			}
		}
	}
	if found < none/10 || none < found/10 {
		t.Errorf("%d requests found hosts and %d found none: they are no test", found, none)
	}
	shardtest.Summary{Backend: backend, Tests: int(found + none), Seeds: 1, Operations: operations}.Tell(t)
}

// agreement is a shard and the table of its rows.
type agreement struct {
	t      *testing.T
	filter shard.HostFinder
	lane   shard.Lane
	writer *Writer
	rng    *rand.Rand
	claims int
	live   []*shard.ClaimRef
}

func newAgreement(t *testing.T, store shard.Store, seed uint64) *agreement {
	lane, err := store.OpenLane(t.Context(), "r1")
	if err != nil {
		t.Fatal(err)
	}
	rows, now := newRows(), func() time.Time { return time.Unix(1, 0) }
	return &agreement{
		t: t, filter: store.(shard.HostFinder), lane: lane, rng: rand.New(rand.NewPCG(seed, 6)),
		writer: newWriter(cellUUID, rows, liveness.New(time.Minute, now), proposals.NewVersions(time.Second, 1, now), nil, slog.New(slog.DiscardHandler)),
	}
}

// agreementHosts is the number of hosts.
const agreementHosts = 48

// change writes a few hosts and claims, and returns the number of operations.
func (a *agreement) change() int {
	var ops []shard.Op
	hosts := 6
	if a.claims == 0 {
		hosts = agreementHosts
	}
	for n := range hosts {
		if hosts < agreementHosts {
			n = a.rng.IntN(agreementHosts)
		}
		ops = append(ops, shard.Op{PutHost: a.host(n)})
		if a.rng.IntN(2) == 0 {
			facts := fmt.Sprintf(`{"free_gb":%d}`, a.rng.IntN(100))
			ops = append(ops, shard.Op{PutFacts: &shard.PutFacts{HostUUID: shardtest.HostID(n), Namespace: "cinder", Facts: facts}})
		}
		if a.rng.IntN(4) == 0 {
			ops = append(ops, shard.Op{SetAdminState: &shard.SetAdminState{HostUUID: shardtest.HostID(n), Reason: "why", State: pick(a.rng, agreedAdmin)}})
		}
		if a.rng.IntN(4) == 0 {
			ops = append(ops, shard.Op{SetSilent: &shard.SetSilent{HostUUID: shardtest.HostID(n), Silent: a.rng.IntN(3) == 0}})
		}
	}
	for range 40 {
		a.claims++
		n := a.rng.IntN(agreementHosts)
		c := shardtest.NewClaim(a.claims, n, 1)
		c.TTL = time.Hour
		c.Allocations = nil
		for _, class := range a.some(agreedClasses) {
			c.Allocations = append(c.Allocations, shard.Used{ProviderUUID: a.provider(n), ResourceClass: class, Amount: 1 + a.rng.Int64N(12)})
		}
		if len(c.Allocations) > 0 {
			ops = append(ops, shard.Op{Claim: c})
			a.live = append(a.live, shardtest.Ref(a.claims))
		}
	}
	for range 15 {
		i := a.rng.IntN(len(a.live))
		ops = append(ops, shard.Op{Release: a.live[i]})
		a.live = slices.Delete(a.live, i, i+1)
	}
	applied, err := a.lane.Apply(a.t.Context(), ops)
	if err != nil {
		a.t.Fatal(err)
	}
	a.writer.makeVersion([]tableUpdate{{changes: applied.Entry.Changes}})
	return len(ops)
}

var (
	agreedClasses    = []string{"VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_FPGA"}
	agreedTraits     = []string{"HW_A", "HW_B", "HW_C", "CUSTOM_\"D\"", "hw_a"}
	agreedAggregates = []string{"agg-1", "agg-2", "agg-3", "AGG-1"}
	agreedZones      = []string{"az1", "az2", "az1,az2", " az1 ,\taz3\x1f", "\u00a0az2\u2003", "", ",", " , ", "AZ1", "az 1", `a"z\`, "", ""}
	agreedRatios     = []float64{1, 1, 1.5, 16, 0.3, 2.0 / 3, 1e300, 5e-324, 0.1}
	agreedSizes      = []int64{0, 1, 7, 16, 64, 1000, shard.MaxAmount}
	agreedUnits      = []int64{1, 1, 1, 2, 3, 5}
	agreedAdmin      = []shard.ConditionState{shard.ConditionEnabled, shard.ConditionEnabled, shard.ConditionDisabled, shard.ConditionMaintenance, shard.ConditionForcedDown}
)

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// some gives about half of a list, in its order.
func (a *agreement) some(of []string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(string) bool { return a.rng.IntN(2) == 0 })
}

// provider is the root of host n, or its child.
func (a *agreement) provider(n int) string {
	if a.rng.IntN(5) == 0 {
		return shardtest.ID('p', n)
	}
	return shardtest.HostID(n)
}

// host returns a state of host n. Its instances may exceed its inventory.
func (a *agreement) host(n int) *shard.PutHost {
	p := shardtest.NewHost(n, 8)
	a.claims++
	p.Host.StateVersion = uint64(a.claims)
	p.Host.Disabled = a.rng.IntN(10) == 0
	p.Host.Providers = append(p.Host.Providers, shard.Provider{UUID: shardtest.ID('p', n), ParentUUID: shardtest.HostID(n), Name: "child"})
	for i := range p.Host.Providers {
		provider := &p.Host.Providers[i]
		provider.Traits = a.some(agreedTraits)
		if len(provider.Traits) > 0 && a.rng.IntN(5) == 0 {
			provider.Traits = append(provider.Traits, provider.Traits[0])
		}
		provider.Inventories = nil
		for _, class := range agreedClasses {
			if a.rng.IntN(5) > 0 {
				provider.Inventories = append(provider.Inventories, shard.Inventory{
					ResourceClass: class, Total: pick(a.rng, agreedSizes), Reserved: a.rng.Int64N(10), AllocationRatio: pick(a.rng, agreedRatios), Unaccounted: a.rng.Int64N(10),
					MinUnit: pick(a.rng, agreedUnits), MaxUnit: 1 + pick(a.rng, agreedSizes), StepSize: pick(a.rng, agreedUnits),
				})
			}
		}
	}
	for _, uuid := range a.some(agreedAggregates) {
		aggregate := shard.Aggregate{UUID: uuid, Name: "name of " + uuid}
		if a.rng.IntN(3) > 0 {
			aggregate.Metadata = map[string]string{"availability_zone": pick(a.rng, agreedZones), "cpu": "x,az2"}
		} else if a.rng.IntN(2) > 0 {
			aggregate.Metadata = map[string]string{"zone": "az1"}
		}
		p.Host.Aggregates = append(p.Host.Aggregates, aggregate)
	}
	if a.rng.IntN(3) == 0 {
		p.Instances = []shard.Instance{{
			UUID: shardtest.ID('j', n), ProjectID: "p",
			Allocations: []shard.Used{{ProviderUUID: shardtest.HostID(n), ResourceClass: "VCPU", Amount: 30}},
		}}
	}
	return p
}

// odd are names that cannot be in any row.
var odd = []string{"HW_\x00A", "HW_\xff"}

func (a *agreement) request() *schedule.Request {
	r := &schedule.Request{}
	for _, class := range agreedClasses[:3] {
		if a.rng.IntN(2) == 0 {
			r.Resources = append(r.Resources, schedule.Amount{Class: class, N: pick(a.rng, []int64{1, 2, 3, 4, 6, 8, 12, 60, 1000, shard.MaxAmount})})
		}
	}
	for _, part := range []func(){
		func() { r.Required = []string{pick(a.rng, agreedTraits)} },
		func() { r.Required = []string{agreedTraits[0], agreedTraits[1]} },
		func() { r.Forbidden = a.some(agreedTraits) },
		func() { r.AnyOf = [][]string{a.some(agreedTraits), a.some(agreedTraits)} },
		func() { r.MemberOf = [][]string{a.some(agreedAggregates)} },
		func() { r.MemberOf = [][]string{agreedAggregates[:2], agreedAggregates[1:]} },
		func() { r.ForbiddenAggregates = a.some(agreedAggregates) },
		func() { r.AvailabilityZone = "nova" },
		func() { r.AvailabilityZone = pick(a.rng, []string{"az1", "az2", "az3", "nova", "az9", "az 1", `a"z\`}) },
		func() {
			name := pick(a.rng, odd)
			r.Forbidden, r.ForbiddenAggregates = append(r.Forbidden, name), append(r.ForbiddenAggregates, name)
			r.AnyOf = append(r.AnyOf, append(a.some(agreedTraits), name))
		},
	} {
		if a.rng.IntN(5) == 0 {
			part()
		}
	}
	switch a.rng.IntN(40) {
	case 0:
		r.Required = append(r.Required, pick(a.rng, odd))
	case 1:
		r.AvailabilityZone = pick(a.rng, odd)
	case 2:
		r.Resources = append(r.Resources, schedule.Amount{Class: pick(a.rng, odd), N: 1})
	}
	return r
}

// compare asks both for a random request, and returns how many hosts passed.
func (a *agreement) compare() int {
	q := &schedule.Query{
		Request: a.request(), Limit: agreementHosts,
		Rules: &schedule.Rules{DefaultAvailabilityZone: pick(a.rng, []string{"nova", "az1", odd[0]})},
	}
	if a.rng.IntN(3) == 0 {
		q.Rules.DefaultAvailabilityZone = q.Request.AvailabilityZone
	}
	filterNames := []string{schedule.ComputeFilter, schedule.ZoneFilter, schedule.AggregateFilter, schedule.TraitFilter, schedule.ResourceFilter}
	q.Rules.Filters = filterNames
	want := a.table(q)
	got := a.database(q)
	if !slices.Equal(got, want) {
		a.t.Errorf("for %+v in default zone %q the database has %v, the table %v", q.Request, q.Rules.DefaultAvailabilityZone, got, want)
	}
	q.Rules.Filters = nil
	if a.rng.IntN(4) == 0 {
		n := a.rng.IntN(agreementHosts)
		q.Request.Destination = &schedule.Destination{Host: shardtest.ServiceHost(n)}
		if a.rng.IntN(2) == 0 {
			q.Request.Destination.Node = shardtest.ServiceHost(n) + ".example.org"
		}
	}
	pass, may := a.table(q), a.database(q)
	for _, host := range pass {
		if !slices.Contains(may, host) {
			a.t.Errorf("for %+v host %s passes every filter of the table, and the database has %v", q.Request, host, may)
		}
	}
	return len(want)
}

func (a *agreement) table(q *schedule.Query) []string {
	p, err := a.writer.versions.Current().Propose(q)
	if err != nil {
		a.t.Fatal(err)
	}
	var list []string
	for _, c := range p.Candidates {
		list = append(list, c.Host.String())
	}
	slices.Sort(list)
	return list
}

func (a *agreement) database(q *schedule.Query) []string {
	asked := HostQueryOf(q.Request, q.Rules)
	if a.rng.IntN(2) == 0 { // a search that iterates over hosts
		asked.Limit = agreementHosts
	}
	m, err := a.filter.FindHosts(a.t.Context(), asked)
	if err != nil {
		a.t.Fatalf("%+v: %v", q.Request, err)
	}
	if m.Hosts != agreementHosts || m.More || len(m.Rows) > 0 {
		a.t.Errorf("of %d hosts, more: %v, %d rows", m.Hosts, m.More, len(m.Rows))
	}
	return m.UUIDs
}
