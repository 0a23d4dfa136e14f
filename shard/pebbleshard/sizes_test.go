package pebbleshard

import (
	"io/fs"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cellgate/internal/norace"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// TestTrim_ADayOfClaimsEnding_TheShardLevelsOff runs a day of store time: claims are made,
// confirmed and released, decisions put, and Trim runs in steps. The size on disk stays at the
// bounds, although no row reaches its maximum age.
func TestTrim_ADayOfClaimsEnding_TheShardLevelsOff(t *testing.T) {
	norace.Skip(t, manyOpens)
	const steps, perStep = 120, 240
	dir, clock := t.TempDir(), newTestClock()
	opts := testOptions
	opts.Clock, opts.Log = clock.read, slog.New(slog.DiscardHandler)
	opts.MaxJournalBytes, opts.MaxEndedBytes, opts.MaxDecisionBytes = 1<<20, 2<<20, 1<<20
	s, err := open(vfs.Default, dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.OpenLane(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), []shard.Op{{PutHost: shardtest.NewHost(1, 1000)}}); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 2000)
	for i := range body {
		body[i] = byte(i*i*31 + i>>3)
	}
	n := 0
	for step := range steps {
		var ops []shard.Op
		var ds []shard.Decision
		for range perStep {
			n++
			ops = append(ops, shard.Op{Claim: shardtest.NewClaim(n, 1, 1)}, shard.Op{Confirm: shardtest.Ref(n)}, shard.Op{Release: shardtest.Ref(n)})
			d := shardtest.NewDecision(n)
			d.Body = append(body[n%1000:], body[:n%1000]...)
			ds = append(ds, d)
		}
		a, err := l.Apply(t.Context(), ops)
		if err != nil || a.Outcomes[0].Refusal != nil {
			t.Fatalf("step %d: %+v, %v", step, a.Outcomes, err)
		}
		if err := s.PutDecisions(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		if err := s.TrimDecisions(t.Context(), time.Unix(1, 0), 1_000_000); err != nil {
			t.Fatal(err)
		}
		clock.move(12 * time.Minute)
		now, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Trim(t.Context(), now.Add(-24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if s.sizes.journal > opts.MaxJournalBytes || s.sizes.ended > opts.MaxEndedBytes {
			t.Fatalf("step %d: %+v", step, s.sizes)
		}
		if step%(steps/8) == steps/8-1 {
			tables := int64(s.db.Metrics().Total().TablesSize)
			t.Logf("%5d claims: %d KiB in the directory, %d KiB of them tables; rows: %+v", n, bytesIn(t, dir)>>10, tables>>10, s.sizes)
			if most := opts.MaxJournalBytes + opts.MaxEndedBytes + opts.MaxDecisionBytes; tables > most {
				t.Errorf("step %d: tables have %d bytes, more than the bounds of their rows together, %d", step, tables, most)
			}
		}
	}
	counted := s.sizes
	mustClose(t, s)
	s, err = open(vfs.Default, dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	if s.sizes != counted {
		t.Errorf("sizes were %+v, are %+v", counted, s.sizes)
	}
}

// TestTrim_TombstonesOverTheBound_AreKeptTenMinutes: a late message about a claim that just ended
// must be refused, even if tombstones exceed their bound.
func TestTrim_TombstonesOverTheBound_AreKeptTenMinutes(t *testing.T) {
	clock := newTestClock()
	opts := testOptions
	opts.Clock, opts.MaxEndedBytes = clock.read, 1
	s, err := open(vfs.NewMem(), lossDir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	l, err := s.OpenLane(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), []shard.Op{{PutHost: shardtest.NewHost(1, 8)}, {Claim: shardtest.NewClaim(1, 1, 1)}, {Release: shardtest.Ref(1)}}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		kept  bool
	}{{0, true}, {shard.MinTombstoneTTL - time.Minute, true}, {2 * time.Minute, false}} {
		clock.move(step.after)
		if err := s.Trim(t.Context(), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		page, err := s.FindClaims(t.Context(), shard.ClaimQuery{Ended: true})
		if err != nil || len(page.Claims) == 1 != step.kept || s.sizes.ended > 0 != step.kept {
			t.Errorf("%v later: %d ended claims, %+v, %v; kept is %v", step.after, len(page.Claims), s.sizes, err, step.kept)
		}
	}
}

// TestSizes_TombstonesThatComeBack_AreSubtracted: what is counted is what another opening counts, also after a claim
// came back and after claims ended in a batch that read an older tombstone.
func TestSizes_TombstonesThatComeBack_AreSubtracted(t *testing.T) {
	clock := newTestClock()
	s := openAt(t, vfs.NewMem(), lossDir, clock)
	defer mustClose(t, s)
	l, err := s.OpenLane(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	apply := func(ops ...shard.Op) {
		t.Helper()
		a, err := l.Apply(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.Outcomes {
			if r := a.Outcomes[i].Refusal; r != nil {
				t.Fatal(r.Message)
			}
		}
		kept := s.sizes
		s.sizes = sizes{}
		if err := s.countSizes(); err != nil || s.sizes != kept {
			t.Errorf("counted %+v, there are %+v, %v", kept, s.sizes, err)
		}
	}
	apply(shard.Op{PutHost: shardtest.NewHost(1, 8)}, shard.Op{Claim: shardtest.NewClaim(1, 1, 1)}, shard.Op{Claim: shardtest.NewClaim(2, 1, 1)})
	clock.move(shard.MaxClaimTTL)
	apply(shard.Op{Expire: shardtest.Ref(1)})
	back := shardtest.Ref(1)
	back.Reinstate = true
	apply(shard.Op{Confirm: back})
	clock.move(shard.MaxClaimTTL)
	apply(shard.Op{Expire: shardtest.Ref(1)})
	apply(shard.Op{Release: shardtest.Ref(1)}, shard.Op{Release: shardtest.Ref(2)})
	apply(shard.Op{Release: shardtest.Ref(1)}, shard.Op{Claim: shardtest.NewClaim(3, 1, 1)}, shard.Op{Release: shardtest.Ref(3)})
}

func bytesIn(t *testing.T, dir string) int64 {
	t.Helper()
	var all int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // Pebble may remove files meanwhile
		}
		if info, err := e.Info(); err == nil {
			all += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
