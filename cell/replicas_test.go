package cell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/cell/liveness"
	"cellgate/internal/fault"
	"cellgate/internal/pgproxy"
	"cellgate/internal/pgtest"
	"cellgate/internal/testwait"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
	"cellgate/shard/sqlshard"
)

// openPostgres opens a shard in a database, as a replica's process does.
func openPostgres(t testing.TB, url string, change ...func(*sqlshard.Options)) shard.Store {
	t.Helper()
	opts := sqlshard.Options{
		Cell: "cell1", CellUUID: cellUUID, URL: url, Migrate: true, Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&opts)
	}
	s, err := sqlshard.Open(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// sharedShards runs a test with each kind of shard that several replicas can share. Each call of
// open returns one replica's store.
func sharedShards(t *testing.T, test func(t *testing.T, open func() shard.Store)) {
	t.Run("PostgreSQL", func(t *testing.T) {
		url := pgtest.Start(t).NewDatabase(t)
		test(t, func() shard.Store { return openPostgres(t, url) })
	})
	t.Run("several lanes of the embedded one", func(t *testing.T) {
		s := newStore(t)
		test(t, func() shard.Store { return s })
	})
}

func named(name string) func(*Config) {
	return func(c *Config) { c.Replica, c.TailEvery = name, 10*time.Millisecond }
}

// Callers of three replicas want the same few hosts at once, and more than there is. Exactly what
// fits is claimed.
func TestI1_ReplicasTogetherNeverTakeAHostOverCapacity(t *testing.T) {
	sharedShards(t, func(t *testing.T, open func() shard.Store) {
		const hosts, vcpus, replicas, callers, each = 4, 8, 3, 4, 12
		var all []*testCell
		for n := range replicas {
			all = append(all, start(t, open(), named(fmt.Sprintf("r%d", n+1))))
		}
		for n := range hosts {
			for _, r := range all { // an agent streams to every replica
				r.register(plainState(n, vcpus))
			}
		}
		var given [hosts]atomic.Int32
		var wg sync.WaitGroup
		for caller := range replicas * callers {
			r := all[caller%replicas]
			wg.Go(func() {
				for i := range each {
					n := caller*each + i
					id := fmt.Sprintf("k%d", n)
					out, err := r.cells.ClaimBatch(context.Background(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim(id, n, n%hosts, 1)}})
					switch {
					case err != nil:
						t.Error(err)
					case out.GetOutcomes()[0].GetRefusal() == nil:
						given[n%hosts].Add(1)
					case out.GetOutcomes()[0].GetRefusal().GetReason() != string(fault.NoValidHost):
						t.Errorf("%s: %v", id, out.GetOutcomes()[0])
					}
				}
			})
		}
		wg.Wait()
		for n := range hosts {
			if got := given[n].Load(); got != vcpus {
				t.Errorf("host %d: %d of %d were given, and %d wanted", n, got, vcpus, replicas*callers*each/hosts)
			}
		}
		for _, r := range all {
			if err := r.cell.journal.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			if p := r.propose(query(1)); p.GetPassed() != 0 {
				t.Errorf("%s proposes a full host: %v", r.cell.cfg.Replica, p)
			}
			page, err := r.cells.ListClaims(context.Background(), &cellv1.ListClaimsRequest{PageSize: 1000})
			if err != nil || len(page.GetClaims()) != hosts*vcpus {
				t.Errorf("%s lists %d claims, %v", r.cell.cfg.Replica, len(page.GetClaims()), err)
			}
		}
	})
}

// One replica continues with a claim that another one made.
func TestAnotherReplicaGoesOnWithAClaim(t *testing.T) {
	sharedShards(t, func(t *testing.T, open func() shard.Store) {
		one, two := start(t, open(), named("r1")), start(t, open(), named("r2"))
		one.register(plainState(1, 8))
		one.must(newClaim("k1", 1, 1, 4), newClaim("k2", 2, 1, 2))
		one.stop()
		two.must(confirm("k1", 1), release("k2", 2))
		if out := two.do(newClaim("k3", 3, 1, 5)); out[0].GetRefusal().GetReason() != string(fault.NoValidHost) {
			t.Errorf("5 of the 4 that are free: %v", out[0])
		}
		two.must(newClaim("k4", 4, 1, 4))
	})
}

// The first replica that scans ends a lease. The scans of the others then change nothing.
func TestALeaseEndsOnceWhateverReplicaLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		one, two := start(t, store, named("r1")), start(t, store, named("r2"))
		a, b := one.register(plainState(1, 8)), two.register(plainState(1, 8))
		op := newClaim("k1", 1, 1, 8)
		op.GetClaim().Ttl = durationpb.New(30 * time.Second)
		one.must(op)
		for range 4 {
			time.Sleep(10 * time.Second)
			a.heartbeat()
			b.heartbeat()
		}
		synctest.Wait()
		ended := 0
		entries, _, err := store.Tail(t.Context(), nil, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			for _, c := range e.Changes {
				if c.Claim != nil && c.Claim.State == shard.Expired {
					ended++
				}
			}
		}
		if ended != 1 {
			t.Errorf("the lease ended %d times", ended)
		}
		for _, r := range []*testCell{one, two} {
			if p := r.propose(query(8)); p.GetPassed() != 1 {
				t.Errorf("%s: nothing was given back: %v", r.cell.cfg.Replica, p)
			}
		}
	})
}

// stalling is a store whose journal cannot be read for a while.
type stalling struct {
	shard.Store
	mu   sync.Mutex
	wait chan struct{}
	err  error
}

func (s *stalling) set(wait chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait, s.err = wait, err
}

func (s *stalling) Tail(ctx context.Context, after shard.Cursor, limit int) ([]shard.Entry, shard.Cursor, error) {
	s.mu.Lock()
	wait, err := s.wait, s.err
	s.mu.Unlock()
	if wait != nil {
		<-wait
	}
	if err != nil {
		return nil, nil, err
	}
	return s.Store.Tail(ctx, after, limit)
}

// A replica that stood still proposes only after it has read what other replicas did. It does not
// report a cell as full that is not.
func TestAStalledReplicaReadsTheJournalBeforeItProposes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		slow := &stalling{Store: store}
		one, two := start(t, store, named("r1")), start(t, slow, named("r2"))
		one.register(plainState(1, 8))
		one.must(newClaim("k1", 1, 1, 8))
		time.Sleep(time.Second)
		if p := two.propose(query(8)); p.GetHosts() != 1 || p.GetPassed() != 0 {
			t.Fatalf("before: %v", p)
		}
		wakes := make(chan struct{})
		slow.set(wakes, nil)
		time.Sleep(time.Second)
		one.must(release("k1", 1))
		if p := two.propose(query(8)); p.GetPassed() != 0 {
			t.Errorf("a second behind: %v", p)
		}
		time.Sleep(30 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		if p, err := two.cells.ProposeBatch(ctx, &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{query(8)}}); err == nil {
			t.Errorf("half a minute behind: %v", p)
		}
		two.placesNothing("half a minute behind", "the cell's journal has not been read for 3")
		slow.set(nil, nil)
		close(wakes)
		synctest.Wait()
		two.places("awake")
		if p := two.propose(query(8)); p.GetPassed() != 1 {
			t.Errorf("awake: %v", p)
		}
		// A replica that cannot read the journal answers so at once.
		slow.set(nil, fault.New(fault.CellUnavailable, "no way to the journal"))
		time.Sleep(5 * time.Second)
		began := time.Now()
		_, err := two.cells.ProposeBatch(t.Context(), &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{query(8)}})
		if fault.KindOf(err) != fault.CellUnavailable || time.Since(began) > time.Second {
			t.Errorf("no journal: %v after %v", err, time.Since(began))
		}
		two.placesNothing("without a journal", "the cell's journal cannot be read for 5s")
	})
}

// A replica's connections fall silent without being closed. It still learns what others did.
func TestAReplicaWhoseConnectionsFallSilentGoesOn(t *testing.T) {
	srv := pgtest.Start(t)
	direct := srv.NewDatabase(t)
	proxy, err := pgproxy.New(srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	url, err := proxy.URL(direct)
	if err != nil {
		t.Fatal(err)
	}
	quick := func(o *sqlshard.Options) { o.StatementTimeout, o.IdleTimeout = time.Second, 200*time.Millisecond }
	one, two := start(t, openPostgres(t, direct), named("r1")), start(t, openPostgres(t, url, quick), named("r2"))
	one.register(plainState(1, 8))
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	await := func(passed int32) {
		t.Helper()
		for {
			r, err := two.cells.ProposeBatch(ctx, &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{query(8)}})
			if err == nil && r.GetProposals()[0].GetPassed() == passed {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("%d hosts never pass: %v, %v", passed, r, err)
			}
		}
	}
	await(1)
	proxy.SilenceAll()
	one.must(newClaim("k1", 1, 1, 8))
	await(0)
	two.must(release("k1", 1))
	await(1)
}

// A claim from a stale proposal is refused by the transaction, which checks it against what other
// replicas did.
func TestAStaleProposalIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		slow := &stalling{Store: store}
		one, two := start(t, store, named("r1")), start(t, slow, named("r2"))
		one.register(plainState(1, 8))
		time.Sleep(time.Second)
		wakes := make(chan struct{})
		slow.set(wakes, nil)
		defer close(wakes)
		time.Sleep(time.Second)
		one.must(newClaim("k1", 1, 1, 8))
		if p := two.propose(query(8)); p.GetPassed() != 1 {
			t.Fatalf("the table is not stale: %v", p)
		}
		for _, r := range []*testCell{one, two} {
			if out := r.do(newClaim("k2", 2, 1, 8)); out[0].GetRefusal().GetReason() != string(fault.NoValidHost) {
				t.Errorf("%s claimed what is taken: %v", r.cell.cfg.Replica, out[0])
			}
		}
	})
}

// Hosts are not marked down because the replica stood still: their messages wait to be read.
func TestAReplicaThatStoodStillDoesNotBlameItsHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stood atomic.Int64
		l := liveness.New(60*time.Second, func() time.Time { return time.Now().Add(time.Duration(stood.Load())) })
		l.NoteSeen("a")
		l.NoteSeen("b")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx, func(context.Context) {}) }()
		time.Sleep(30 * time.Second)
		stood.Store(int64(time.Hour))
		time.Sleep(27 * time.Second)
		if down, _ := l.DownHosts(); len(down) != 0 {
			t.Errorf("down after the hour in which the replica stood still: %v", down)
		}
		l.NoteSeen("a")
		time.Sleep(40 * time.Second)
		if down, _ := l.DownHosts(); len(down) != 1 {
			t.Errorf("b was silent for a minute after that: %v", down)
		}
		stop()
		<-ended
	})
}

// A replica stands still while another process starts its next incarnation. It then ends, and
// writes nothing more.
func TestAFencedReplicaEnds(t *testing.T) {
	url := pgtest.Start(t).NewDatabase(t)
	store := openPostgres(t, url)
	c, err := New(Config{Name: "cell1", UUID: cellUUID, Replica: "r1"}, Deps{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()
	<-c.Ready()
	r := start(t, openPostgres(t, url), named("r1"))
	r.register(plainState(1, 8))
	answers, err := c.queue.Do(t.Context(), []shard.Op{{Release: &shard.ClaimRef{ClaimID: "k1", ConsumerUUID: consumerUUID(1)}}}, true)
	if err == nil {
		err = answers[0].Err
	}
	if fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("a write of the earlier incarnation: %v", err)
	}
	if err := <-ended; !errors.Is(err, shard.ErrFenced) {
		t.Errorf("Run ended with %v", err)
	}
	r.must(newClaim("k1", 1, 1, 8))
}

// A replica that writes nothing ends too, because it reads that it was fenced.
func TestAnIdleReplicaThatIsFencedEnds(t *testing.T) {
	url := pgtest.Start(t).NewDatabase(t)
	store := openPostgres(t, url)
	c, err := New(Config{Name: "cell1", UUID: cellUUID, Replica: "r1", LeaseScan: 24 * time.Hour}, Deps{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()
	<-c.Ready()
	another := openPostgres(t, url)
	if _, err := another.OpenLane(t.Context(), "r1"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, shard.ErrFenced) {
			t.Errorf("Run ended with %v", err)
		}
	case <-time.After(testwait.Limit):
		t.Fatal("it goes on")
	}
}

// A replica learns late that its own transaction was committed, after it has read that in the
// journal. Claims that another replica has ended since do not come back.
func TestALateAnswerBringsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, store := newStore(t), &testStore{}
		store.Store = slow.Store
		one, two := start(t, slow, named("r1")), start(t, store, named("r2"))
		one.register(plainState(1, 8))
		slow.hook(func(_ []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
			applied, err := commit()
			time.Sleep(5 * time.Second)
			return applied, err
		})
		answered := make(chan *cellv1.ClaimBatchResponse)
		go func() {
			out, err := one.cells.ClaimBatch(t.Context(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("k1", 1, 1, 8)}})
			if err != nil {
				t.Error(err)
			}
			answered <- out
		}()
		time.Sleep(time.Second)
		two.must(release("k1", 1))
		if out := <-answered; out.GetOutcomes()[0].GetRefusal() != nil {
			t.Errorf("the claim was answered %v", out)
		}
		synctest.Wait()
		q := query(8)
		q.ConsumerUuids = []string{consumerUUID(1)}
		for _, r := range []*testCell{one, two} {
			if p := r.propose(q); len(p.GetClaims()) != 0 || p.GetPassed() != 1 {
				t.Errorf("%s has the released claim: %v", r.cell.cfg.Replica, p)
			}
		}
	})
}
