package pebbleshard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"cellgate/internal/norace"
	"cellgate/internal/testlong"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// crashes clones, before some writes and syncs, the files that a power cut would leave.
type crashes struct {
	fs *vfs.MemFS

	mu    sync.Mutex
	rng   *rand.Rand
	every int
	// acked is how many claims were acknowledged.
	acked int
	left  []crash
}

type crash struct {
	fs    *vfs.MemFS
	acked int
	op    string
}

func (c *crashes) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rng.IntN(c.every) == 0 {
		cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, c.rng.IntN(101), 100}[c.rng.IntN(3)], RNG: c.rng}
		c.left = append(c.left, crash{c.fs.CrashClone(cfg), c.acked, fmt.Sprintf("%v of %s, %d%% of unsynced", op.Kind, op.Path, cfg.UnsyncedDataPercent)})
	}
	return nil
}

func (c *crashes) String() string { return "crashes" }

// TestOpen_AfterAPowerCutAtAnyWrite_HasAllAcknowledged cuts the power at random writes and syncs,
// also while a store opens after a power cut. Every such store opens and has all acknowledged
// claims.
func TestOpen_AfterAPowerCutAtAnyWrite_HasAllAcknowledged(t *testing.T) {
	norace.Skip(t, manyOpens)
	const claims = 60
	seeds := 3
	if testlong.On() {
		seeds = 12
	}
	first, second := 0, 0
	for seed := range uint64(seeds) {
		fs := vfs.NewCrashableMem()
		c := &crashes{fs: fs, rng: rand.New(rand.NewPCG(seed, 9)), every: 6}
		s := mustOpen(t, errorfs.Wrap(fs, c), "a new shard")
		l, err := s.OpenLane(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Apply(t.Context(), []shard.Op{{PutHost: shardtest.NewHost(1, claims)}}); err != nil {
			t.Fatal(err)
		}
		for n := range claims {
			claim(t, l, n)
			c.mu.Lock()
			c.acked++
			c.mu.Unlock()
			if n%25 == 24 {
				if err := s.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		mustClose(t, s)
		for _, left := range c.left {
			// A second power cut hits this opening.
			again := &crashes{fs: left.fs, rng: c.rng, every: 20, acked: left.acked}
			hasAtLeast(t, errorfs.Wrap(left.fs, again), left.acked, left.op)
			for _, twice := range again.left {
				hasAtLeast(t, twice.fs, twice.acked, left.op+", then "+twice.op)
			}
			first, second = first+1, second+len(again.left)
		}
	}
	t.Logf("%d power cuts, and %d while that was opened again", first, second)
	if least := 40 * seeds; first < least || second < least {
		t.Errorf("the test proves little: %d and %d power cuts", first, second)
	}
}

func mustOpen(t *testing.T, fs vfs.FS, what string) *Store {
	t.Helper()
	opts := testOptions
	opts.Clock, opts.Log = newTestClock().read, slog.New(slog.DiscardHandler)
	s, err := open(fs, lossDir, opts)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return s
}

// claim makes and confirms claim n, in one transaction.
func claim(t *testing.T, l shard.Lane, n int) {
	t.Helper()
	a, err := l.Apply(t.Context(), []shard.Op{{Claim: shardtest.NewClaim(n, 1, 1)}, {Confirm: shardtest.Ref(n)}})
	if err != nil || a.Outcomes[0].Refusal != nil || a.Outcomes[1].Refusal != nil {
		t.Fatalf("claim %d: %+v, %v", n, a.Outcomes, err)
	}
}

func hasAtLeast(t *testing.T, fs vfs.FS, acked int, what string) {
	t.Helper()
	s := mustOpen(t, fs, what)
	for n := range acked {
		if c := s.rows.claims[shardtest.Ref(n).ClaimID]; c == nil || c.State != shard.Confirmed {
			t.Errorf("%s: of %d acknowledged claims %d is %+v", what, acked, n, c)
		}
	}
	mustClose(t, s)
}

// TestMark_AfterAKill_HasTheLastAcknowledgedCommit: the kernel has the write of MARK before the
// caller has its answer.
func TestMark_AfterAKill_HasTheLastAcknowledgedCommit(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := mustOpen(t, fs, "a new shard")
	defer mustClose(t, s)
	l, err := s.OpenLane(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 50 {
		if _, err := l.Apply(t.Context(), []shard.Op{{PutHost: shardtest.NewHost(n, 8)}}); err != nil {
			t.Fatal(err)
		}
		d := &directory{fs: kill(fs), path: lossDir}
		h, _, err := d.readMark()
		s.mu.Lock()
		want := s.sum.commit
		s.mu.Unlock()
		if err != nil || h.commit != want || h.log == 0 {
			t.Fatalf("after commit %d MARK is %+v, %v", want, h, err)
		}
	}
}

// TestOpen_ARowChangedBehindTheCommits_IsRefused: the checksum of the commits shows that a row is
// missing or changed.
func TestOpen_ARowChangedBehindTheCommits_IsRefused(t *testing.T) {
	const claims = 40
	whole := confirmed(t, claims)
	key := nameKey(claimKey, shardtest.Ref(7).ClaimID)
	for what, change := range map[string]func(*pebble.DB) error{
		"gone": func(db *pebble.DB) error { return db.Delete(key, pebble.Sync) },
		"older": func(db *pebble.DB) error {
			b, closer, err := db.Get(nameKey(claimKey, shardtest.Ref(8).ClaimID))
			if err != nil {
				return err
			}
			return errors.Join(db.Set(key, b, pebble.Sync), closer.Close())
		},
	} {
		fs := kill(whole)
		db, err := pebble.Open(path.Join(lossDir, pebbleDir), &pebble.Options{FS: fs, FormatMajorVersion: pebbleFormat, Logger: logger{&ends{log: slog.New(slog.DiscardHandler)}}})
		if err == nil {
			err = errors.Join(change(db), db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if allOrRefused(t, fs, claims, "a row "+what) == nil {
			t.Errorf("a store with a row %s opens", what)
		}
	}
}

// TestOpen_ARefusedStore_IsLeftAsItIsUntilLossIsAccepted: a refusal changes no file, so the next
// Open refuses again, and a copy can still be examined. accept-loss in MARK makes Open serve the
// claims that are left, once.
func TestOpen_ARefusedStore_IsLeftAsItIsUntilLossIsAccepted(t *testing.T) {
	const claims = 80
	fs := confirmed(t, claims)
	var log string
	for _, name := range filesOf(t, fs) {
		if path.Ext(name) == ".log" {
			log = name
		}
	}
	text := readAll(t, fs, log)
	text[len(strings.TrimRight(string(text), "\x00"))*3/4] ^= 0xff
	replace(t, fs, log, text)
	before := filesOf(t, fs)
	for range 2 {
		err := allOrRefused(t, fs, claims, "a damaged log")
		if err == nil || !strings.Contains(err.Error(), log) || !strings.Contains(err.Error(), "echo accept-loss >"+lossDir+"/MARK") {
			t.Fatalf("the refusal names not the file or not the remedy: %v", err)
		}
	}
	if after := filesOf(t, fs); fmt.Sprint(after, string(readAll(t, fs, log))) != fmt.Sprint(before, string(text)) {
		t.Errorf("a refused store had %s, has %s", before, after)
	}
	replace(t, fs, path.Join(lossDir, markFile), []byte(acceptLoss+"\n"))
	for range 2 { // the first start writes a normal MARK
		s := mustOpen(t, fs, "loss is accepted")
		if n := len(s.rows.claims); n == 0 || n >= claims {
			t.Errorf("%d of %d claims are left", n, claims)
		}
		mustClose(t, s)
	}
	// MARK detects losses again.
	if err := fs.RemoveAll(path.Join(lossDir, pebbleDir)); err != nil {
		t.Fatal(err)
	}
	if err := fs.MkdirAll(path.Join(lossDir, pebbleDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if allOrRefused(t, fs, claims, "an emptied directory") == nil {
		t.Error("an emptied directory opens")
	}
}

// TestMark_ASyncThatFails_EndsTheStore: a store whose MARK cannot follow the commits is broken.
func TestMark_ASyncThatFails_EndsTheStore(t *testing.T) {
	full := errors.New("the disk is full")
	fail := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSyncData && path.Base(op.Path) == markFile {
			return full
		}
		return nil
	})
	s := mustOpen(t, errorfs.Wrap(vfs.NewMem(), fail), "a new shard")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := error(nil)
	for err == nil {
		_, err = s.OpenLane(ctx, "r")
	}
	if !errors.Is(err, full) || !errors.Is(err, shard.ErrBroken) {
		t.Errorf("OpenLane: %v, want %v", err, full)
	}
	if err := s.Close(); !errors.Is(err, full) {
		t.Errorf("Close: %v, want %v", err, full)
	}
}
