package shardtest

import (
	"sync"
	"time"
)

func timeClauses() []clause {
	return []clause{
		{name: "TimeIsUTCAndPasses", test: func(s *suite) {
			a := s.now()
			s.Advance(time.Minute)
			if b := s.now(); b.Sub(a) < time.Minute || a.Location() != time.UTC {
				s.Errorf("it was %v, a minute later %v", a, b)
			}
		}},
		{name: "TimeDoesNotFollowAClockThatGoesBack", test: func(s *suite) {
			a := s.now()
			s.Rewind(time.Hour)
			if b := s.now(); b.Before(a) {
				s.Errorf("it was %v, then %v", a, b)
			}
			if e := s.apply(opOf(NewHost(1, 8))).Entry; e.At.Before(a) {
				s.Errorf("it was %v, then %v", a, e.At)
			}
		}},
		{name: "TimeDoesNotGoBackOverARestart", test: func(s *suite) {
			for range 3 {
				a := s.now()
				s.Rewind(time.Hour)
				s.reopen()
				if b := s.now(); b.Before(a) {
					s.Errorf("it was %v, after opening again %v", a, b)
				}
			}
		}},
		{name: "TimeDoesNotGoBackOverACrash", test: func(s *suite) {
			for range 3 {
				s.Advance(10 * time.Second)
				a := s.now()
				s.Rewind(time.Hour)
				s.crash()
				if b := s.now(); b.Before(a) {
					s.Errorf("it was %v, after a crash %v", a, b)
				}
				s.Advance(2 * time.Hour)
			}
		}},
		{name: "EntriesOfALaneAreInOrderOfTime", test: func(s *suite) {
			var wg sync.WaitGroup
			for w := range 4 {
				wg.Go(func() {
					for i := range 10 {
						s.apply(opOf(NewHost(w*10+i, 8)))
					}
				})
			}
			wg.Wait()
			entries, _ := s.tail(nil, 100)
			for i := 1; i < len(entries); i++ {
				if entries[i].At.Before(entries[i-1].At) {
					s.Errorf("entry %d is of %v, the one before of %v", entries[i].Seq, entries[i].At, entries[i-1].At)
				}
			}
		}},
	}
}

func (s *suite) now() time.Time {
	s.Helper()
	t, err := s.Now(s.ctx)
	if err != nil {
		s.Fatalf("Now: %v", err)
	}
	return t
}
