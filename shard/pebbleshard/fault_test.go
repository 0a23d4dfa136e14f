package pebbleshard

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"cellgate/internal/fault"
	"cellgate/internal/testwait"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// disk holds up or fails the syncs of the WAL.
type disk struct {
	mu   sync.Mutex
	err  error
	gate chan struct{}
	// held receives when a sync is held up.
	held chan struct{}
}

func (d *disk) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
	default:
		return nil
	}
	if !strings.HasSuffix(op.Path, ".log") {
		return nil
	}
	d.mu.Lock()
	err, gate := d.err, d.gate
	d.mu.Unlock()
	if gate != nil {
		select {
		case d.held <- struct{}{}:
		default:
		}
		<-gate
	}
	return err
}

func (d *disk) String() string { return "disk" }

func (d *disk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// hold makes syncs wait until release is called.
func (d *disk) hold() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	gate := make(chan struct{})
	d.gate, d.held = gate, make(chan struct{}, 1)
	return func() {
		d.mu.Lock()
		d.gate = nil
		d.mu.Unlock()
		close(gate)
	}
}

func openOn(t *testing.T, d *disk, mem *vfs.MemFS) (*Store, shard.Lane) {
	t.Helper()
	opts := testOptions
	opts.Log = slog.New(slog.DiscardHandler)
	s, err := open(errorfs.Wrap(mem, d), "/shard", opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.OpenLane(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), []shard.Op{{PutHost: shardtest.NewHost(1, 8)}}); err != nil {
		t.Fatal(err)
	}
	return s, l
}

// TestAFailedSyncEndsTheStore: the Apply in flight has an unknown outcome, and all later calls are
// unavailable. After another opening, everything acknowledged is there.
func TestAFailedSyncEndsTheStore(t *testing.T) {
	d, mem := &disk{}, vfs.NewCrashableMem()
	s, l := openOn(t, d, mem)
	other, err := s.OpenLane(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is broken")
	d.fail(broken)
	left := mem.CrashClone(vfs.CrashCloneCfg{})
	if _, err := l.Apply(t.Context(), []shard.Op{{Claim: shardtest.NewClaim(1, 1, 1)}}); fault.KindOf(err) != fault.OutcomeUnknown {
		t.Errorf("Apply while the sync fails: %v, want %s", err, fault.OutcomeUnknown)
	}
	d.fail(nil) // the store does not trust a disk that recovers
	for what, call := range map[string]func() error{
		"Apply":       func() error { _, err := l.Apply(t.Context(), []shard.Op{{Release: shardtest.Ref(9)}}); return err },
		"other Apply": func() error { _, err := other.Apply(t.Context(), nil); return err },
		"OpenLane":    func() error { _, err := s.OpenLane(t.Context(), "x"); return err },
		"Now":         func() error { _, err := s.Now(t.Context()); return err },
		"Load":        func() error { _, err := s.Load(t.Context(), func(shard.Change) error { return nil }); return err },
		"FindClaims":  func() error { _, err := s.FindClaims(t.Context(), shard.ClaimQuery{}); return err },
		"Due":         func() error { _, err := s.Due(t.Context(), 1); return err },
		"Tail":        func() error { _, _, err := s.Tail(t.Context(), nil, 1); return err },
		"Trim":        func() error { return s.Trim(t.Context(), time.Now()) },
	} {
		if err := call(); fault.KindOf(err) != fault.CellUnavailable || !errors.Is(err, shard.ErrBroken) {
			t.Errorf("%s after a failed sync: %v, want %s and %v", what, err, fault.CellUnavailable, shard.ErrBroken)
		}
	}
	if err := s.Close(); fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("Close after a failed sync: %v, want %s", err, fault.CellUnavailable)
	}
	again := openAt(t, left, "/shard", newTestClock())
	defer mustClose(t, again)
	rows, _, err := shardtest.LoadRows(t.Context(), again)
	if err != nil || len(rows.Hosts) != 1 {
		t.Errorf("left are %+v, %v", rows, err)
	}
}

// TestFlush_DiskFails_EndsTheStore: Pebble alone would flush again and again, and writers would wait for that.
func TestFlush_DiskFails_EndsTheStore(t *testing.T) {
	for _, number := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		fail := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".sst") {
				return number
			}
			return nil
		})
		mem := vfs.NewMem()
		opts := testOptions
		opts.Log = slog.New(slog.DiscardHandler)
		s, err := open(errorfs.Wrap(mem, fail), lossDir, opts)
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.OpenLane(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Apply(t.Context(), []shard.Op{{PutHost: shardtest.NewHost(1, 8)}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.db.AsyncFlush(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(testwait.Limit); err == nil && time.Now().Before(end); {
			_, err = l.Apply(t.Context(), nil)
		}
		if fault.KindOf(err) != fault.CellUnavailable || !errors.Is(err, shard.ErrBroken) || !errors.Is(err, number) {
			t.Errorf("Apply: %v, want %v", err, number)
		}
		if err := s.Close(); !errors.Is(err, number) {
			t.Errorf("Close: %v, want %v", err, number)
		}
		again := openAt(t, mem, lossDir, newTestClock())
		if rows, _, err := shardtest.LoadRows(t.Context(), again); err != nil || len(rows.Hosts) != 1 {
			t.Errorf("left are %+v, %v", rows, err)
		}
		mustClose(t, again)
	}
}

// TestI3_NothingIsShownBeforeItIsDurable holds a sync up. Neither its caller, nor a reader, nor an
// Apply that changes nothing gets an answer that depends on it. Lanes share the sync that they wait
// for.
func TestI3_NothingIsShownBeforeItIsDurable(t *testing.T) {
	d := &disk{}
	s, l := openOn(t, d, vfs.NewMem())
	defer mustClose(t, s)
	other, err := s.OpenLane(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	release := d.hold()
	claim := []shard.Op{{Claim: shardtest.NewClaim(1, 1, 1)}}
	answer := make(chan error, 3)
	go func() { _, err := l.Apply(t.Context(), claim); answer <- err }()
	<-d.held

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Load(ended, func(shard.Change) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("Load while a sync is held up: %v", err)
	}
	if _, _, err := s.Tail(ended, nil, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("Tail while a sync is held up: %v", err)
	}
	if _, err := s.FindClaims(ended, shard.ClaimQuery{}); !errors.Is(err, context.Canceled) {
		t.Errorf("FindClaims while a sync is held up: %v", err)
	}
	// The same claim again changes nothing, but its answer depends on the first claim.
	go func() { _, err := other.Apply(t.Context(), claim); answer <- err }()
	third, err2 := openLaneLater(s)
	if err2 != nil {
		t.Fatal(err2)
	}
	go func() {
		_, err := third.Apply(t.Context(), []shard.Op{{Claim: shardtest.NewClaim(2, 1, 1)}})
		answer <- err
	}()
	select {
	case err := <-answer:
		t.Errorf("answered before the sync: %v", err)
	default:
	}
	release()
	for range 3 {
		if err := <-answer; err != nil {
			t.Error(err)
		}
	}
}

// openLaneLater makes a lane without waiting for its sync.
func openLaneLater(s *Store) (*lane, error) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.OpenLane(ctx, "third"); err != nil && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.lanes[s.lastIncarnation]
	return &lane{store: s, id: state.id, state: state, turn: make(chan struct{}, 1)}, nil
}

// TestAContextThatEndsDuringTheSync: the caller does not learn the outcome, but the lane knows it
// before its next Apply.
func TestAContextThatEndsDuringTheSync(t *testing.T) {
	d := &disk{}
	s, l := openOn(t, d, vfs.NewMem())
	defer mustClose(t, s)
	release := d.hold()
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := l.Apply(ctx, []shard.Op{{Claim: shardtest.NewClaim(1, 1, 1)}})
		answer <- err
	}()
	<-d.held
	cancel()
	if err := <-answer; fault.KindOf(err) != fault.OutcomeUnknown || !errors.Is(err, context.Canceled) {
		t.Errorf("Apply: %v, want %s", err, fault.OutcomeUnknown)
	}
	if _, err := l.Apply(ctx, []shard.Op{{Release: shardtest.Ref(1)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("the next Apply did not wait for the last: %v", err)
	}
	release()
	a, err := l.Apply(t.Context(), []shard.Op{{Claim: shardtest.NewClaim(1, 1, 1)}})
	if err != nil || a.Outcomes[0].Refusal != nil || a.Entry.Seq != 0 {
		t.Errorf("the same claim again: %+v, %v", a, err)
	}
	if entries, _, err := s.Tail(t.Context(), nil, 10); err != nil || len(entries) != 2 {
		t.Errorf("journal is %+v, %v", entries, err)
	}
}

// TestOpenMemInABubble: a store in memory runs on synctest's time.
func TestOpenMemInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := OpenMem(testOptions)
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.OpenLane(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		ops := []shard.Op{{PutHost: shardtest.NewHost(1, 8)}, {Claim: shardtest.NewClaim(1, 1, 1)}}
		if _, err := l.Apply(t.Context(), ops); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second) // in the bubble's time
		if due, err := s.Due(t.Context(), 10); err != nil || len(due) != 1 {
			t.Errorf("due are %v, %v", due, err)
		}
		mustClose(t, s)
	})
}
