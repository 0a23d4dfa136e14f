package sqlshard

import (
	"crypto/rand"
	"testing"
	"time"

	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// MaxDecisionBytes bounds the decisions, too: a trim deletes the oldest.
func TestDecisionsAreBoundedByBytes(t *testing.T) {
	opts := testOptions(newDatabase(t))
	opts.MaxDecisionBytes = 100_000
	s := openAt(t, opts)
	defer mustClose(t, s)
	for n := range 10 {
		d := shardtest.NewDecision(n)
		d.Body = make([]byte, 30_000)
		if _, err := rand.Read(d.Body); err != nil { // random bytes, which the server cannot compress
			t.Fatal(err)
		}
		if err := s.PutDecisions(t.Context(), []shard.Decision{d}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.TrimDecisions(t.Context(), time.Unix(1, 0), 1_000_000); err != nil {
		t.Fatal(err)
	}
	p, err := s.FindDecisions(t.Context(), shard.DecisionQuery{})
	if err != nil || len(p.Decisions) != 3 || p.Decisions[0].ID != shardtest.DecisionID(9) {
		t.Errorf("%d decisions are left, %v; want the newest 3", len(p.Decisions), err)
	}
}
