package shardtest

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"testing"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// Backend is a kind of store to test.
type Backend struct {
	Name string
	// Open makes a fresh, empty store. The suite closes it.
	Open func(t *testing.T) *Instance
	// Faults returns the faults of its stores so far, by kind. Seeds counts the seeds that decided them. They are nil
	// and 0 if there were none.
	Faults func() map[string]int64
	Seeds  int64
	// If NoRules is set, Run skips the topics that test only rules of shard.Decide, except the clauses named after an
	// invariant. NoRules gives the reason.
	NoRules string
}

// Instance is an open store and the ways to disturb it. If a function is nil, the backend lacks that capability. Run
// then skips the tests that need it, and reports them.
type Instance struct {
	shard.Store
	// Advance moves store time forward.
	Advance func(d time.Duration)
	// Rewind sets the machine's clock back. Store time must not follow.
	Rewind func(d time.Duration)
	// Reopen closes the store and opens it again.
	Reopen func(t *testing.T) *Instance
	// Crash opens what a power loss at this moment would leave. The old store continues, and the suite closes it.
	Crash func(t *testing.T) *Instance
	// Damage changes a host's usage behind the store's back, without a journal entry.
	Damage func(t *testing.T, u *shard.Usage)
}

// clause is one sentence of the contract.
type clause struct {
	name string
	test func(s *suite)
}

type topic struct {
	name    string
	clauses []clause
	// rules means that the clauses test shard.Decide, which is the same on every store.
	rules bool
}

// invariant matches the names of clauses that carry an invariant's number.
var invariant = regexp.MustCompile(`^I\d+_`)

func topics() []topic {
	return []topic{
		{name: "claims", clauses: claimClauses()},
		{name: "moves", clauses: moveClauses(), rules: true},
		{name: "swap", clauses: swapClauses(), rules: true},
		{name: "confirm", clauses: confirmClauses(), rules: true},
		{name: "release", clauses: releaseClauses(), rules: true},
		{name: "expire", clauses: expireClauses(), rules: true},
		{name: "hardware", clauses: hardwareClauses(), rules: true},
		{name: "verdicts", clauses: verdictClauses(), rules: true},
		{name: "audit", clauses: auditClauses()},
		{name: "groups", clauses: groupClauses()},
		{name: "pins", clauses: pinClauses()},
		{name: "puthost", clauses: putHostClauses()},
		{name: "imports", clauses: importClauses()},
		{name: "gate", clauses: gateClauses(), rules: true},
		{name: "facts", clauses: factsClauses()},
		{name: "adminstates", clauses: adminStateClauses(), rules: true},
		{name: "removehost", clauses: removeHostClauses()},
		{name: "placement", clauses: placementClauses()},
		{name: "badinput", clauses: badInputClauses()},
		{name: "lanes", clauses: laneClauses()},
		{name: "journal", clauses: journalClauses()},
		{name: "trim", clauses: trimClauses()},
		{name: "load", clauses: loadClauses()},
		{name: "find", clauses: findClauses()},
		{name: "time", clauses: timeClauses()},
		{name: "decisions", clauses: decisionClauses()},
		{name: "restart", clauses: restartClauses()},
		{name: "locks", clauses: lockClauses()},
		{name: "linearizable", clauses: linearizableClauses()},
		{name: "history", clauses: historyClauses()},
	}
}

// Run runs the whole suite. After each test the rows must add up, and the replayed journal must give the rows.
func Run(t *testing.T, b Backend) {
	count := &tally{backend: b, summary: Summary{Backend: b.Name}}
	// All subtests have ended by then.
	t.Cleanup(func() { count.printSummary(t) })
	for _, topic := range topics() {
		t.Run(topic.name, func(t *testing.T) {
			left := 0
			for _, c := range topic.clauses {
				if b.NoRules != "" && topic.rules && !invariant.MatchString(c.name) {
					left++
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					defer func() { count.ended(t, topic.name+"/"+c.name) }()
					s := open(t, b, count)
					c.test(s)
					s.checkRows()
					if !s.trimmed {
						s.checkJournal()
					}
				})
			}
			if left > 0 {
				t.Run("rules", func(t *testing.T) {
					NotRun(t, b.Name, fmt.Sprintf("%d clauses of %s: %s", left, topic.name, b.NoRules))
				})
			}
		})
	}
}

// suite is one test, with its store and a lane to write through.
type suite struct {
	*testing.T
	*Instance
	ctx   context.Context
	lane  shard.Lane
	tally *tally
	// trimmed: the journal does not give the rows from the beginning any more.
	trimmed bool
}

func open(t *testing.T, b Backend, count *tally) *suite {
	s := &suite{T: t, Instance: count.counted(b.Open(t)), ctx: t.Context(), tally: count}
	t.Cleanup(func() {
		if err := s.Instance.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	s.lane = s.openLane("replica-1")
	return s
}

func (s *suite) openLane(replica string) shard.Lane {
	s.Helper()
	l, err := s.OpenLane(s.ctx, replica)
	if err != nil {
		s.Fatalf("OpenLane(%s): %v", replica, err)
	}
	return l
}

// needs skips the test if the backend lacks a capability.
func (s *suite) needs(capability string, has bool) {
	s.Helper()
	if !has {
		s.Skipf("backend %s NOT TESTED: it has no capability %q", s.tally.backend.Name, capability)
	}
}

// Advance is Instance.Advance.
func (s *suite) Advance(d time.Duration) {
	s.needs("advance", s.Instance.Advance != nil)
	s.Instance.Advance(d)
}

// Rewind is Instance.Rewind.
func (s *suite) Rewind(d time.Duration) {
	s.needs("rewind", s.Instance.Rewind != nil)
	s.Instance.Rewind(d)
}

// reopen reopens the store and replaces the old store and lane.
func (s *suite) reopen() {
	s.Helper()
	s.needs("reopen", s.Instance.Reopen != nil)
	s.Instance = s.Instance.Reopen(s.T)
	s.lane = s.openLane("replica-1")
}

// apply runs a batch that must not fail.
func (s *suite) apply(ops ...shard.Op) shard.Applied {
	s.Helper()
	a, err := s.lane.Apply(s.ctx, ops)
	if err != nil {
		s.Fatalf("Apply: %v", err)
	}
	if len(a.Outcomes) != len(ops) {
		s.Fatalf("Apply of %d operations has %d outcomes", len(ops), len(a.Outcomes))
	}
	return a
}

// do runs operations one after the other. None may be refused. It returns the last outcome.
func (s *suite) do(ops ...any) (last shard.Outcome) {
	s.Helper()
	for _, op := range ops {
		last = s.apply(opOf(op)).Outcomes[0]
		if last.Refusal != nil {
			s.Fatalf("%T refused: %s: %s", op, last.Refusal.Kind, last.Refusal.Message)
		}
	}
	return last
}

// refused runs one operation that the store must refuse, without changing anything.
func (s *suite) refused(op any, kind fault.Kind) shard.Outcome {
	s.Helper()
	a := s.apply(opOf(op))
	o := a.Outcomes[0]
	switch {
	case o.Refusal == nil:
		s.Fatalf("%T was done, want it refused with %s", op, kind)
	case o.Refusal.Kind != kind:
		s.Fatalf("%T refused with %s (%s), want %s", op, o.Refusal.Kind, o.Refusal.Message, kind)
	case o.Refusal.Message == "":
		s.Fatalf("%T refused with %s and no message", op, kind)
	case a.Entry.Seq != 0 || len(a.Entry.Changes) != 0:
		s.Fatalf("%T refused with %s, and something was written: %+v", op, kind, a.Entry)
	}
	return o
}

// refusedBy runs one operation that does not fit. This filter must refuse it with this detail.
func (s *suite) refusedBy(op any, filter, detail string) {
	s.Helper()
	if r := s.refused(op, fault.NoValidHost).Refusal; r.Filter != filter || r.Detail != detail {
		s.Errorf("refused by %q for %q, want %q for %q", r.Filter, r.Detail, filter, detail)
	}
}

// inTheWay runs one operation that the claim want must block.
func (s *suite) inTheWay(op any, want *shard.Claim) {
	s.Helper()
	if in := s.refused(op, fault.AlreadyExists).Claim; !equalRows(in, want) {
		s.Errorf("in the way is %+v, want %+v", in, want)
	}
}

// nothing runs one operation that must succeed without writing anything.
func (s *suite) nothing(op any) shard.Outcome {
	s.Helper()
	a := s.apply(opOf(op))
	if r := a.Outcomes[0].Refusal; r != nil {
		s.Fatalf("%T refused: %s: %s", op, r.Kind, r.Message)
	}
	if a.Entry.Seq != 0 {
		s.Fatalf("%T wrote %+v, want nothing written", op, a.Entry.Changes)
	}
	return a.Outcomes[0]
}

// gives runs an operation that must have this outcome.
func (s *suite) gives(op any, want shard.Outcome) {
	s.Helper()
	if o := s.do(op); !equalRows(&o, &want) {
		s.Errorf("%T gives %+v, want %+v", op, o, want)
	}
}

// changesNothing runs an operation that must have this outcome and write nothing.
func (s *suite) changesNothing(op any, want shard.Outcome) {
	s.Helper()
	if o := s.nothing(op); !equalRows(&o, &want) {
		s.Errorf("%T gives %+v, want %+v", op, o, want)
	}
}

// All four operations are a ClaimRef. These types tell opOf which one is meant; each other operation has a type of its
// own.
type (
	confirm  shard.ClaimRef
	release  shard.ClaimRef
	takeOver shard.ClaimRef
	expire   shard.ClaimRef
)

func opOf(v any) (op shard.Op) {
	switch v := v.(type) {
	case shard.Op:
		return v
	case confirm:
		op.Confirm = (*shard.ClaimRef)(&v)
	case release:
		op.Release = (*shard.ClaimRef)(&v)
	case takeOver:
		op.TakeOver = (*shard.ClaimRef)(&v)
	case expire:
		op.Expire = (*shard.ClaimRef)(&v)
	default:
		of := reflect.ValueOf(&op).Elem()
		for i := range of.NumField() {
			if of.Field(i).Type() == reflect.TypeOf(v) {
				of.Field(i).Set(reflect.ValueOf(v))
			}
		}
	}
	return op
}

// find returns a claim by number, also an ended one, or nil if there is none.
func (s *suite) find(n int) *shard.Claim {
	s.Helper()
	p, err := s.FindClaims(s.ctx, shard.ClaimQuery{ClaimIDs: []string{ClaimID(n)}, Ended: true})
	if err != nil {
		s.Fatalf("FindClaims: %v", err)
	}
	if len(p.Claims) == 0 {
		return nil
	}
	return p.Claims[0]
}

// state checks a claim's state. If want is "", there must be no claim.
func (s *suite) state(n int, want shard.ClaimState) {
	s.Helper()
	var got shard.ClaimState
	if c := s.find(n); c != nil {
		got = c.State
	}
	if got != want {
		s.Fatalf("claim %d is %q, want %q", n, got, want)
	}
}

// used checks a host's usage of Class.
func (s *suite) used(host int, want int64) {
	s.Helper()
	if got := s.rows().Usages[HostID(host)].Of(HostID(host), Class); got != want {
		s.Fatalf("host %d has %d in use, want %d", host, got, want)
	}
}
