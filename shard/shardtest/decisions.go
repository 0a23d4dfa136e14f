package shardtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// DecisionID returns a decision's id. A greater n sorts later.
func DecisionID(n int) string { return fmt.Sprintf("cell1.%026d", n) }

// NewDecision makes decision n: at second n, for instance n%5 and project n%3, with a request id of its own.
func NewDecision(n int) shard.Decision {
	d := shard.Decision{
		ID: DecisionID(n), At: time.Unix(int64(1000+n), 0).UTC(),
		Terms: []string{instance(n % 5), fmt.Sprintf("project:%d", n%3), fmt.Sprintf("req:%d", n)}, Body: fmt.Appendf(nil, "what was decided in %d", n),
	}
	if n%4 == 0 {
		d.Terms = append(d.Terms, "refused")
	}
	return d
}

// instance returns the search term of instance n.
func instance(n int) string { return "instance:" + ConsumerID(n) }

// by makes a query for terms.
func by(terms ...string) shard.DecisionQuery { return shard.DecisionQuery{Terms: terms} }

func decisionClauses() []clause {
	return []clause{
		{name: "ADecisionIsFoundAsItWasPut", test: func(s *suite) {
			d := NewDecision(1)
			d.Terms = []string{instance(1), instance(2), "reason:CONTENDED"}
			s.decide(d)
			p := s.decisions(shard.DecisionQuery{ID: d.ID})
			if len(p.Decisions) != 1 || !equalRows(&p.Decisions[0], &d) {
				s.Errorf("found %+v, want %+v", p, d)
			}
			if p := s.decisions(shard.DecisionQuery{ID: DecisionID(2)}); len(p.Decisions) != 0 || p.More {
				s.Errorf("found %+v", p)
			}
		}},
		{name: "ADecisionIsReplacedByItsID", test: func(s *suite) {
			first, second := NewDecision(1), NewDecision(1)
			second.Terms, second.Body = []string{instance(9), "other"}, nil
			s.decide(first, NewDecision(2))
			s.decide(first, second)
			if p := s.decisions(shard.DecisionQuery{}); len(p.Decisions) != 2 || !equalRows(&p.Decisions[1], &second) {
				s.Errorf("found %+v", p)
			}
			for _, term := range first.Terms {
				if p := s.decisions(by(term)); slices.Contains(idsOf(p), first.ID) {
					s.Errorf("%s finds %+v", term, p)
				}
			}
		}},
		{name: "QueriesNarrowNewestFirst", test: func(s *suite) {
			var all []shard.Decision
			for n := 1; n <= 30; n++ {
				all = append(all, NewDecision(n))
			}
			s.decide(all...)
			for _, q := range []shard.DecisionQuery{
				{},
				by("refused"),
				by(instance(2)),
				by("project:1"),
				by("req:7"),
				by(instance(2), "project:1"),
				by("project:1", instance(2)),
				by("project:1", "refused"),
				by("refused", "project:1"),
				by("req:7", instance(3)),
				by(instance(2), "project:2", "refused"),
				{ID: DecisionID(8), Terms: []string{"refused"}},
				{ID: DecisionID(7), Terms: []string{"refused"}},
				by(instance(99)),
				by("project"),
				by(instance(2), "nothing"),
				{Before: DecisionID(20)},
				{Before: DecisionID(20), Terms: []string{instance(2)}},
				{Before: DecisionID(1)},
				{Before: "cell1.zzz"},
				{From: DecisionID(10)},
				{From: DecisionID(10) + "0", Terms: []string{instance(2)}},
				{From: DecisionID(10), Before: DecisionID(20)},
				{From: DecisionID(10), Before: DecisionID(20), Terms: []string{"refused", "project:1"}},
				{From: DecisionID(10), Before: DecisionID(10)},
				{From: DecisionID(20), Before: DecisionID(10), Terms: []string{instance(2)}},
				{From: DecisionID(10), ID: DecisionID(10)},
				{From: DecisionID(11), ID: DecisionID(10)},
				{From: DecisionID(30) + "0"},
				{From: "cell1."},
				{From: "zzz"},
			} {
				var want []string
				for i := len(all); i > 0; i-- {
					if q.Matches(&all[i-1]) {
						want = append(want, all[i-1].ID)
					}
				}
				if got := idsOf(s.decisions(q)); !slices.Equal(got, want) {
					s.Errorf("%+v finds %v, want %v", q, got, want)
				}
				q.Limit = 2
				var paged []string
				for {
					p := s.decisions(q)
					paged = append(paged, idsOf(p)...)
					if !p.More {
						break
					}
					if len(p.Decisions) != 2 {
						s.Fatalf("a page of %d with more after it", len(p.Decisions))
					}
					q.Before = p.Decisions[1].ID
				}
				if !slices.Equal(paged, want) {
					s.Errorf("%+v finds %v by pages, want %v", q, paged, want)
				}
			}
		}},
		{name: "APageIsAHundredByDefault", test: func(s *suite) {
			for n := 1; n <= 101; n++ {
				s.decide(NewDecision(n))
			}
			if p := s.decisions(shard.DecisionQuery{}); len(p.Decisions) != 100 || !p.More {
				s.Errorf("a page of %d (more: %v)", len(p.Decisions), p.More)
			}
		}},
		{name: "BigBodiesAreKeptWholeAndPagesStayBounded", test: func(s *suite) {
			s.seed()
			rng := rand.New(rand.NewPCG(1, 2))
			var all []shard.Decision
			for n, size := range []int{shard.MaxDecisionPage / 2, shard.MaxDecisionPage / 2, 10, shard.MaxDecisionBody} {
				d := NewDecision(n + 1)
				d.Body = make([]byte, size)
				if n%2 == 0 {
					for i := range d.Body { // random bytes do not compress
						d.Body[i] = byte(rng.Uint32())
					}
				}
				all = append(all, d)
			}
			s.decide(all...)
			var got []shard.Decision
			for q := (shard.DecisionQuery{}); ; q.Before = got[len(got)-1].ID {
				p := s.decisions(q)
				if len(p.Decisions) == 0 {
					s.Fatal("a page is empty")
				}
				bytes := 0
				for _, d := range p.Decisions {
					bytes += len(d.Body)
				}
				if bytes > shard.MaxDecisionPage && len(p.Decisions) > 1 {
					s.Errorf("a page of %d decisions has %d bytes", len(p.Decisions), bytes)
				}
				got = append(got, p.Decisions...)
				if !p.More {
					break
				}
			}
			slices.Reverse(got)
			if len(got) != len(all) {
				s.Fatalf("found %d", len(got))
			}
			for i := range got {
				if !bytes.Equal(got[i].Body, all[i].Body) {
					s.Errorf("body %d has %d bytes, had %d", i, len(got[i].Body), len(all[i].Body))
				}
			}
		}},
		{name: "ABadDecisionIsRefusedByFieldAndNoneIsKept", test: func(s *suite) {
			for field, spoil := range map[string]func(*shard.Decision){
				"decisions[1].id":                       func(d *shard.Decision) { d.ID = "" },
				"decisions[1].at":                       func(d *shard.Decision) { d.At = time.Time{} },
				"decisions[1].terms: must not be empty": func(d *shard.Decision) { d.Terms = []string{"a", ""} },
				"decisions[1].terms":                    func(d *shard.Decision) { d.Terms = []string{"\xff"} },
				"decisions[1].body":                     func(d *shard.Decision) { d.Body = make([]byte, shard.MaxDecisionBody+1) },
			} {
				bad := NewDecision(2)
				spoil(&bad)
				err := s.PutDecisions(s.ctx, []shard.Decision{NewDecision(1), bad})
				if fault.KindOf(err) != fault.InvalidRequest || !bytes.Contains([]byte(err.Error()), []byte(field)) {
					s.Errorf("%s: %v", field, err)
				}
			}
			if p := s.decisions(shard.DecisionQuery{}); len(p.Decisions) != 0 {
				s.Errorf("kept %v", idsOf(p))
			}
		}},
		{name: "TrimDropsTheOldestByAgeAndByCount", test: func(s *suite) {
			for n := 1; n <= 30; n++ {
				s.decide(NewDecision(n))
			}
			trim := func(before, keep int) {
				s.Helper()
				if err := s.TrimDecisions(s.ctx, time.Unix(int64(1000+before), 0), keep); err != nil {
					s.Fatalf("TrimDecisions: %v", err)
				}
			}
			left := func(from, to int) {
				s.Helper()
				var want []string
				for n := to; n >= from; n-- {
					want = append(want, DecisionID(n))
				}
				if got := idsOf(s.decisions(shard.DecisionQuery{})); !slices.Equal(got, want) {
					s.Errorf("left are %v, want %v", got, want)
				}
			}
			trim(0, 100)
			left(1, 30)
			trim(11, 100)
			left(11, 30)
			trim(0, 15)
			left(16, 30)
			trim(21, 15)
			left(21, 30)
			for _, q := range []shard.DecisionQuery{by(instance(0)), by("project:0"), by("req:20")} {
				for _, id := range idsOf(s.decisions(q)) {
					if id < DecisionID(21) {
						s.Errorf("%+v still finds %s", q, id)
					}
				}
			}
			s.decide(NewDecision(22), NewDecision(31)) // decision 22 is there, 31 is not
			trim(0, 11)
			left(21, 31)
			trim(0, 0)
			left(1, 0)
		}},
		{name: "TheyAreThereAfterwards", test: func(s *suite) {
			s.decide(NewDecision(1), NewDecision(2))
			s.reopen()
			if got := idsOf(s.decisions(shard.DecisionQuery{})); !slices.Equal(got, []string{DecisionID(2), DecisionID(1)}) {
				s.Errorf("found %v", got)
			}
			if err := s.TrimDecisions(s.ctx, time.Unix(1, 0), 1); err != nil {
				s.Fatal(err)
			}
			if got := idsOf(s.decisions(shard.DecisionQuery{})); !slices.Equal(got, []string{DecisionID(2)}) {
				s.Errorf("left are %v", got)
			}
		}},
		{name: "ACrashLosesTheLastAtMost", test: func(s *suite) {
			s.decide(NewDecision(1))
			s.decide(NewDecision(2), NewDecision(3))
			s.crash()
			got := idsOf(s.decisions(shard.DecisionQuery{}))
			if n := len(got); n != 0 && n != 1 && n != 3 {
				s.Errorf("found %v", got)
			}
			for _, id := range got {
				if p := s.decisions(shard.DecisionQuery{ID: id}); len(p.Decisions) != 1 || len(p.Decisions[0].Body) == 0 {
					s.Errorf("of %s there is %+v", id, p)
				}
			}
		}},
		{name: "TheyAreNoPartOfTheJournal", test: func(s *suite) {
			s.do(NewHost(1, 8))
			at := s.position()
			s.decide(NewDecision(1))
			if got, _ := s.tail(at, 10); len(got) != 0 {
				s.Errorf("the journal has %+v", got)
			}
		}},
		{name: "PutFindAndTrimAtOnce", test: func(s *suite) {
			const writers, each = 4, 25
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := range each {
						if err := s.PutDecisions(s.ctx, []shard.Decision{NewDecision(i*writers + w)}); err != nil {
							s.Errorf("PutDecisions: %v", err)
						}
						p, err := s.FindDecisions(s.ctx, by(instance(w)))
						if err != nil || !slices.IsSortedFunc(p.Decisions, func(a, b shard.Decision) int { return -bytes.Compare([]byte(a.ID), []byte(b.ID)) }) {
							s.Errorf("FindDecisions: %v, %v", idsOf(p), err)
						}
						if i%5 == 0 {
							if err := s.TrimDecisions(s.ctx, time.Unix(1, 0), 20); err != nil {
								s.Errorf("TrimDecisions: %v", err)
							}
						}
					}
				})
			}
			wg.Wait()
			if err := s.TrimDecisions(s.ctx, time.Unix(1, 0), 20); err != nil {
				s.Fatal(err)
			}
			// Concurrent trims may each drop the same excess.
			got := idsOf(s.decisions(shard.DecisionQuery{}))
			if len(got) > 20 || len(got) < 10 || got[0] != NewDecision(writers*each-1).ID {
				s.Errorf("left are %v", got)
			}
		}},
	}
}

func (s *suite) decide(ds ...shard.Decision) {
	s.Helper()
	if err := s.PutDecisions(s.ctx, ds); err != nil {
		s.Fatalf("PutDecisions: %v", err)
	}
}

func (s *suite) decisions(q shard.DecisionQuery) shard.DecisionPage {
	s.Helper()
	p, err := s.FindDecisions(s.ctx, q)
	if err != nil {
		s.Fatalf("FindDecisions(%+v): %v", q, err)
	}
	return p
}

func idsOf(p shard.DecisionPage) []string {
	var ids []string
	for _, d := range p.Decisions {
		ids = append(ids, d.ID)
	}
	return ids
}
