package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/testlong"
	"cellgate/internal/testwait"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// chaosPlan is the size of a run.
type chaosPlan struct {
	rounds, workers, cells, hosts int
	load                          chaosLoad
	// killAfter is the shortest and longest time between the return of the load and a kill.
	killAfter [2]time.Duration
	// least acknowledged requests before a kill.
	least int64
	// repeats is the most acknowledged requests that are repeated in a round.
	repeats int
	// settle waits for the end of every lease in each round, not only in the last.
	settle bool
}

func chaosPlanOf() chaosPlan {
	p := chaosPlan{
		rounds: 3, workers: 80, cells: 3, hosts: 25, least: 100, repeats: 150,
		killAfter: [2]time.Duration{200 * time.Millisecond, 900 * time.Millisecond},
		load:      chaosLoad{Short: time.Second, Long: 3 * time.Second, Within: 8 * time.Second},
	}
	if os.Getenv("CELLGATE_LONG") != "" {
		p.rounds, p.workers, p.hosts, p.least, p.repeats, p.settle = 20, 2000, 100, 2000, 1000, true
		p.killAfter = [2]time.Duration{300 * time.Millisecond, 4 * time.Second}
		p.load.Short, p.load.Long, p.load.Within = 2*time.Second, 8*time.Second, 30*time.Second
	}
	p.load.Workers = p.workers
	return p
}

// TestI3_I4_I8_KilledAtRandomMoments repeatedly kills processes during many concurrent claims. It
// compares the claims that exist afterwards with the answers that a surviving client got.
// CELLGATE_LONG=1 runs 20 rounds with 2,000 concurrent requests.
func TestI3_I4_I8_KilledAtRandomMoments(t *testing.T) {
	testlong.Only(t, "TestI8_RestartOnADatabaseKeepsAcknowledgedClaims, and the crash tests of the stores")
	p := chaosPlanOf()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("CELLGATE_CHAOS_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("CELLGATE_CHAOS_SEED=%d repeats the requests, the victims and the moments", seed)
	p.load.Seed = seed
	dice := rand.New(rand.NewPCG(seed, 0))
	s := startSystem(t, p.cells, p.hosts, func(kind string) []string {
		switch kind {
		case "gateway":
			// So many requests on two cores take long. The test is not about speed.
			return []string{"--propose-budget", "5s", "--claim-budget", "8s", "--max-in-flight", "8192"}
		case "cell":
			return []string{"--lease-scan", "500ms"}
		}
		return nil
	})
	p.load.Addr, p.load.Log = s.api, filepath.Join(t.TempDir(), "acknowledged.jsonl")
	load := startLoad(t, p.load)
	run := &chaosRun{plan: p, realSystem: s, client: load, acknowledged: newPromises(p.load), dice: dice}
	rows := run.table.table("ROUND", "KILLED", "AFTER", "IN FLIGHT", "ACKNOWLEDGED", "CONFIRMED", "REFUSED", "NO ANSWER", "GIVEN UP", "BESIDE", "DIFFERED", "DUE", "FOUND", "REPEATED", "EQUAL", "LEFTOVER", "READY IN", "TIME")
	for n := range p.rounds {
		run.round(n, rows)
		if t.Failed() {
			break
		}
	}
	rows.print()
	t.Logf("%d cells x %d hosts, %d requests at once, leases %v and %v\n%s", p.cells, p.hosts, p.workers, p.load.Short, p.load.Long, run.table.String())
	if path := os.Getenv("CELLGATE_CHAOS_TABLE"); path != "" {
		if err := os.WriteFile(path, run.table.Bytes(), 0o600); err != nil {
			t.Error(err)
		}
	}
	if !t.Failed() {
		run.mustSeeTampering()
	}
}

type chaosRun struct {
	*realSystem
	plan         chaosPlan
	client       *loadProcess
	acknowledged *promises
	// read is how much of the log has been read.
	read   int64
	before chaosCount
	dice   *rand.Rand
	table  page
	// live is the claims that the last comparison saw, at seen.
	live map[string]*cellgatev1.Claim
	seen time.Time
}

// victims returns the processes to kill in a round: each kind in turn, of a random cell.
func (r *chaosRun) victims(n int) (string, []*member) {
	switch n % 3 {
	case 0:
		c := r.cells[r.dice.IntN(len(r.cells))]
		return c.name, []*member{c}
	case 1:
		return "gateway", []*member{r.gateway}
	}
	return "everything", r.all()
}

func (r *chaosRun) round(n int, rows *table) {
	began := time.Now()
	r.client.command("go")
	// The load runs. After that, wait for a random time.
	r.await(testwait.Limit, "the load is there", func(context.Context) (bool, string) {
		c := r.client.command("count")
		got := c.Acknowledged - r.before.Acknowledged
		return got >= r.plan.least && c.InFlight > int64(r.plan.workers)/2, fmt.Sprintf("%d acknowledged, %d in flight", got, c.InFlight)
	})
	after := r.plan.killAfter[0] + time.Duration(r.dice.Int64N(int64(r.plan.killAfter[1]-r.plan.killAfter[0])))
	hold(r.t.Context(), after)
	what, victims := r.victims(n)
	inFlight := r.client.command("count").InFlight
	for _, m := range victims {
		m.kill()
	}
	killed := time.Now()
	hold(r.t.Context(), time.Duration(r.dice.Int64N(int64(500*time.Millisecond))))
	for _, m := range victims {
		m.start()
	}
	r.awaitReady(testwait.Limit)
	ready := time.Since(killed)
	r.acknowledged.scanning = time.Now()
	hold(r.t.Context(), 300*time.Millisecond) // some load on the restarted process
	count := r.client.command("pause")
	paused := time.Now()
	r.awaitReady(testwait.Limit)

	notes, read, err := readNotes(r.plan.load.Log, r.read)
	if err != nil {
		r.t.Fatal(err)
	}
	r.read = read
	r.acknowledged.addNotes(notes)
	for _, odd := range r.acknowledged.odd {
		r.t.Errorf("round %d: %s", n+1, odd)
	}
	r.acknowledged.odd = nil
	v := r.compare(false)
	repeated, equal := r.repeat(n)
	settled := &finding{}
	if r.plan.settle || n == r.plan.rounds-1 {
		// Every lease that was requested has ended.
		hold(r.t.Context(), time.Until(paused.Add(r.plan.load.Long+leaseLate)))
		settled = r.compare(true)
		r.acknowledged.forget(r.live)
	}
	for i, problem := range append(v.Problems, settled.Problems...) {
		if i == 20 {
			r.t.Errorf("round %d: … and %d more", n+1, len(v.Problems)+len(settled.Problems)-i)
			break
		}
		r.t.Errorf("round %d, %s killed: %s", n+1, what, problem)
	}
	if repeated != equal {
		r.t.Errorf("round %d: %d of %d repeated requests had another answer", n+1, repeated-equal, repeated)
	}
	if count.GivenUp == r.before.GivenUp || count.Beside == r.before.Beside {
		r.t.Errorf("round %d: no call was given up, or none sent twice: %+v", n+1, count)
	}
	if v.Due == 0 || repeated == 0 {
		r.t.Errorf("round %d: %d claims to find and %d requests to repeat: nothing was tested", n+1, v.Due, repeated)
	}
	b := r.before
	rows.row(n+1, what, after.Round(10*time.Millisecond), inFlight, count.Acknowledged-b.Acknowledged, count.Confirmed-b.Confirmed, count.Refused-b.Refused, count.Unanswered-b.Unanswered, count.GivenUp-b.GivenUp, count.Beside-b.Beside, count.Differed-b.Differed,
		v.Due+settled.Due, v.Found+settled.Found, repeated, equal, settled.Leftover, ready.Round(10*time.Millisecond), time.Since(began).Round(100*time.Millisecond))
	r.before = count
}

// hold waits.
func hold(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// compare lists the live claims and compares them with the client's answers.
func (r *chaosRun) compare(settled bool) *finding {
	r.t.Helper()
	at := time.Now()
	live, err := r.claims()
	if err != nil {
		r.t.Fatal(err)
	}
	listed := time.Now()
	hosts, err := r.listHosts()
	if err != nil {
		r.t.Fatal(err)
	}
	v := r.acknowledged.compare(live, at, listed, settled)
	v.capacity(hosts, live, settled)
	if n := r.hosts; len(hosts) != n {
		v.bad("%d hosts, want %d", len(hosts), n)
	}
	r.live, r.seen = live, listed
	return v
}

// repeat repeats acknowledged requests whose claims are all live, and counts the equal answers.
func (r *chaosRun) repeat(round int) (repeated, equal int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 32)
	scheduler := cellgatev1.NewSchedulerClient(r.conn)
	for id, n := range r.acknowledged.answers {
		if repeated == r.plan.repeats {
			break
		}
		if !r.isLive(n) {
			continue
		}
		repeated++
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(r.t.Context(), r.plan.load.Within)
			defer cancel()
			resp, err := scheduler.SelectDestinations(ctx, r.plan.load.request(id).SelectDestinationsRequest)
			// The answer may have come after its lease ended.
			late := err == nil && !r.isLive(n)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && essence(resp) == n.Essence:
				equal++
			case late:
				repeated--
			default:
				r.t.Errorf("round %d: request %s was answered with %v, its repetition with %v, %v %v", round+1, id, n.Claims, acknowledged(id, time.Time{}, resp).Claims, fault.KindOf(err), err)
			}
		})
	}
	wg.Wait()
	return repeated, equal
}

// isLive reports whether all claims of an answer must live for at least another second.
func (r *chaosRun) isLive(n note) bool {
	for _, c := range n.Claims {
		if !r.acknowledged.claims[c.Claim].due(time.Now().Add(time.Second)) {
			return false
		}
	}
	return true
}

// forget drops claims that cannot matter any more: they have ended and do not exist, after every
// lease has ended.
func (p *promises) forget(live map[string]*cellgatev1.Claim) {
	for id, c := range p.claims {
		if live[id] == nil && (!c.confirmed || c.released) && !c.stays() {
			delete(p.claims, id)
		}
	}
	for id, n := range p.answers {
		for _, c := range n.Claims {
			if p.claims[c.Claim] == nil {
				delete(p.answers, id)
				break
			}
		}
	}
}

// mustSeeTampering changes one item at a time in a copy of the client's log, and checks that the
// comparison with the last listed claims finds it.
func (r *chaosRun) mustSeeTampering() {
	victim := ""
	for _, id := range slices.Sorted(maps.Keys(r.acknowledged.claims)) {
		if c := r.acknowledged.claims[id]; c.confirmed && c.due(r.seen) && r.live[id] != nil {
			victim = id
			break
		}
	}
	if victim == "" {
		r.t.Fatal("no confirmed claim is left to tamper with")
	}
	for name, c := range tamperings(victim) {
		text, err := os.ReadFile(r.plan.load.Log)
		if err != nil {
			r.t.Fatal(err)
		}
		path := filepath.Join(r.t.TempDir(), "tampered.jsonl")
		if err := os.WriteFile(path, []byte(c.log(string(text))), 0o600); err != nil {
			r.t.Fatal(err)
		}
		notes, _, err := readNotes(path, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		acknowledged := newPromises(r.plan.load)
		acknowledged.addNotes(notes)
		acknowledged.odd = nil
		v := acknowledged.compare(r.live, r.seen, r.seen, true)
		if found := strings.Join(v.Problems, "\n"); !strings.Contains(found, c.want) {
			r.t.Errorf("%s: not reported; %d problems: %.500s", name, len(v.Problems), found)
		}
	}
}

type tampering struct {
	log  func(string) string
	want string
}

func tamperings(claim string) map[string]tampering {
	line := func(text string, change func(string) string) string {
		lines := strings.Split(text, "\n")
		for i, l := range lines {
			if strings.Contains(l, claim) && strings.Contains(l, noteAcknowledged) {
				lines[i] = change(l)
			}
		}
		return strings.Join(lines, "\n")
	}
	return map[string]tampering{
		"another claim_id": {func(text string) string { return strings.ReplaceAll(text, claim, "x"+claim) }, "claim x" + claim},
		"another host": {func(text string) string {
			return line(text, func(l string) string { return strings.ReplaceAll(l, `"host":"`, `"host":"x`) })
		}, "claim " + claim},
		"no acknowledgement": {func(text string) string { return line(text, func(string) string { return "{}" }) }, "claim " + claim + " of request"},
	}
}
