package shardtest

import (
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

var oldEnough = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

func trimClauses() []clause {
	return []clause{
		{name: "TrimmedEntriesAreGoneToWhoNeedsThem", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 1))
			_, early := s.tail(nil, 1)
			_, at := s.tail(nil, 100)
			s.Advance(time.Hour)
			s.do(NewClaim(2, 1, 1))
			s.trim(-time.Minute)
			for _, behind := range []shard.Cursor{nil, early} {
				if _, _, err := s.Tail(s.ctx, behind, 100); fault.KindOf(err) != fault.Gone {
					s.Errorf("Tail from %v: %v, want %s", behind, err, fault.Gone)
				}
			}
			if got, _ := s.tail(at, 100); len(got) != 1 || got[0].Seq != 3 {
				s.Errorf("after what was trimmed are %+v", got)
			}
			rows, at, err := LoadRows(s.ctx, s)
			if err != nil || len(rows.Claims) != 2 {
				s.Errorf("loaded %+v, %v", rows, err)
			}
			s.do(NewClaim(3, 1, 1))
			if got, _ := s.tail(at, 100); len(got) != 1 || got[0].Seq != 4 {
				s.Errorf("after Load are %+v", got)
			}
		}},
		{name: "NumbersGoOnAfterTrimmingAll", test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.Advance(time.Hour)
			s.trim(0)
			if a := s.apply(opOf(NewClaim(1, 1, 1))); a.Entry.Seq != 2 {
				s.Errorf("next entry is %d", a.Entry.Seq)
			}
			s.trim(0)
			s.trim(0)
		}},
		{name: "TombstonesAreKeptForTheirTime", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 1), release(*Ref(1)), release(*Ref(2)), NewClaim(3, 1, 1), confirm(*Ref(3)))
			s.Advance(shard.TombstoneTTL - time.Minute)
			s.do(release(*Ref(4)))
			s.trim(0)
			s.refused(NewClaim(1, 1, 1), fault.ClaimExpired)
			s.refused(NewClaim(2, 1, 1), fault.ClaimExpired)
			s.Advance(time.Hour)
			s.trim(0)
			s.state(1, "")
			s.state(2, "")
			s.state(3, shard.Confirmed)
			s.state(4, shard.Released)
			s.do(NewClaim(1, 1, 1))
			s.refused(NewClaim(4, 1, 1), fault.ClaimExpired)
		}},
		{name: "TombstonesAfterTheGivenTimeStay", test: func(s *suite) {
			s.do(release(*Ref(1)))
			s.Advance(2 * shard.TombstoneTTL)
			s.do(NewHost(1, 8))
			s.trim(-3 * shard.TombstoneTTL)
			s.state(1, shard.Released)
			s.checkJournal()
		}},
		{name: "AClaimThatCameBackIsNoTombstone", test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.expired(1, 1, 1)
			s.do(confirm(*Ref(1)))
			s.expired(2, 1, 1)
			s.Advance(23 * time.Hour)
			s.do(release(*Ref(2)))
			s.Advance(2 * time.Hour)
			s.trim(0)
			s.state(1, shard.Confirmed)
			s.state(2, shard.Released)
			s.used(1, 1)
		}},
		{name: "ALaneThatEndedAndIsTrimmedIsMissedOnlyByWhoMissedIt", test: func(s *suite) {
			s.do(NewHost(1, 8))
			_, early := s.tail(nil, 100)
			other := s.openLane("b")
			for n := range 2 {
				if _, err := other.Apply(s.ctx, []shard.Op{opOf(NewClaim(n, 1, 1))}); err != nil {
					s.Fatalf("Apply: %v", err)
				}
			}
			_, middle := s.tail(early, 1)
			_, at := s.tail(early, 100)
			loaded := s.position()
			second := s.openLane("b")
			s.Advance(time.Hour)
			for range 3 { // one trim may drop the lane, and a later one drops what reports it
				s.trim(-time.Minute)
				_, at = s.tail(at, 100)
				_, loaded = s.tail(loaded, 100)
				for name, behind := range map[string]shard.Cursor{"nothing": nil, "none of the lane": early, "a part of the lane": middle} {
					if _, _, err := s.Tail(s.ctx, behind, 100); fault.KindOf(err) != fault.Gone {
						s.Errorf("Tail after %s: %v, want %s", name, err, fault.Gone)
					}
				}
				s.Advance(time.Hour)
			}
			if third := s.openLane("b"); third.ID().Incarnation <= second.ID().Incarnation {
				s.Errorf("incarnation %d came after %d", third.ID().Incarnation, second.ID().Incarnation)
			}
			s.do(NewClaim(2, 1, 1))
			for name, from := range map[string]shard.Cursor{"all along": at, "since a Load": loaded} {
				if got, _ := s.tail(from, 100); len(got) != 1 || len(got[0].Changes) == 0 {
					s.Errorf("a reader of %s gets %+v", name, got)
				}
			}
			if got, _ := s.tail(s.position(), 100); len(got) != 0 {
				s.Errorf("after Load comes %+v", got)
			}
		}},
		{name: "ManyAreTrimmed", test: func(s *suite) {
			ops := make([]shard.Op, 2500)
			for i := range ops {
				ops[i] = opOf(release(*Ref(i)))
			}
			s.apply(ops...)
			s.Advance(25 * time.Hour)
			s.trim(0)
			p, err := s.FindClaims(s.ctx, shard.ClaimQuery{Ended: true})
			if err != nil || len(p.Claims) != 0 {
				s.Errorf("left are %d tombstones, %v", len(p.Claims), err)
			}
		}},
	}
}

// trim trims what is older than now plus from.
func (s *suite) trim(from time.Duration) {
	s.Helper()
	now, err := s.Now(s.ctx)
	if err == nil {
		s.trimmed = true
		err = s.Trim(s.ctx, now.Add(from))
	}
	if err != nil {
		s.Fatalf("Trim: %v", err)
	}
}
