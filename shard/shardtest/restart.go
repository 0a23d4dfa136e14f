package shardtest

import (
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

func restartClauses() []clause {
	reopen := []string{"reopen"}
	return []clause{
		{name: "I3_EverythingIsThereAfterwards", needs: append(reopen, "advance"), test: func(s *suite) {
			s.everything()
			before, at := s.rows(), s.position()
			s.reopen()
			for _, d := range before.Diff(s.rows()) {
				s.Errorf("before and after: %s", d)
			}
			if !equalRows(&at, new(s.position())) {
				s.Errorf("the journal ended at %v, ends at %v", at, s.position())
			}
			s.asLeft()
		}},
		{name: "I3_EverythingIsThereAfterACrash", needs: []string{"crash", "advance"}, test: func(s *suite) {
			s.everything()
			before := s.rows()
			s.crash()
			for _, d := range before.Diff(s.rows()) {
				s.Errorf("before and after: %s", d)
			}
			s.asLeft()
		}},
		{name: "AnIncarnationIsNotGivenTwice", needs: reopen, test: func(s *suite) {
			last := s.lane.ID()
			for range 3 {
				s.reopen()
				if id := s.lane.ID(); id.Replica != last.Replica || id.Incarnation <= last.Incarnation {
					s.Errorf("incarnation %v after %v", id, last)
				}
				last = s.lane.ID()
				s.do(NewHost(int(last.Incarnation), 8))
			}
		}},
		{name: "ACursorOutlivesIt", needs: reopen, test: func(s *suite) {
			s.do(NewHost(1, 8))
			_, at := s.tail(nil, 100)
			s.do(NewHost(2, 8))
			s.reopen()
			s.do(NewHost(3, 8))
			if got, _ := s.tail(at, 100); len(got) != 2 {
				s.Errorf("%d entries after the cursor, want 2", len(got))
			}
		}},
		{name: "WhatWasTrimmedStaysTrimmed", needs: append(reopen, "advance"), untold: true, test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.Advance(time.Hour)
			s.trim(0)
			s.reopen()
			if _, _, err := s.Tail(s.ctx, nil, 10); fault.KindOf(err) != fault.Gone {
				s.Errorf("Tail: %v, want %s", err, fault.Gone)
			}
		}},
	}
}

// everything writes a row of each kind and a claim in each state.
func (s *suite) everything() {
	s.Helper()
	h := NewHost(1, 8)
	h.Instances = []shard.Instance{{UUID: ConsumerID(50), Allocations: []shard.Used{{ProviderUUID: HostID(1), ResourceClass: Class, Amount: 1}}}}
	s.do(h)
	s.expired(1, 1, 1)
	for n := 2; n <= 4; n++ {
		s.do(NewClaim(n, 1, 1))
	}
	s.do(confirm(*Ref(2)), release(*Ref(3)), grouped(5, 1, "anti-affinity", 1), newPin(1, "a"), moveGate(0, shard.GateNative))
	other := imported(1, 8, nil)
	other.Host.UUID, other.Host.Providers[0].UUID, other.Host.ServiceHost = HostID(2), HostID(2), ServiceHost(2)
	s.do(other)
}

// asLeft checks by operations that the store is as everything left it.
func (s *suite) asLeft() {
	s.Helper()
	for n, want := range map[int]shard.ClaimState{1: shard.Expired, 2: shard.Confirmed, 3: shard.Released, 4: shard.Pending, 5: shard.Pending} {
		s.state(n, want)
	}
	s.used(1, 4)
	s.refused(NewClaim(3, 1, 1), fault.ClaimExpired)
	s.refused(moveGate(0, shard.GateLegacy), fault.StaleGeneration)
	if h := s.rows().Hosts[HostID(2)]; !h.Imported {
		s.Errorf("host 2 is %+v", h)
	}
	full := grouped(6, 1, "anti-affinity", 1)
	s.refused(full, fault.NoValidHost)
	s.refused(newPin(2, "b"), fault.Contended)
	again := NewClaim(7, 1, 1)
	again.ConsumerUUID = ConsumerID(4)
	s.refused(again, fault.AlreadyExists)
	s.Advance(2 * time.Minute)
	if due := s.due(10); len(due) != 2 {
		s.Errorf("due are %v, want claims 4 and 5", due)
	}
	s.do(confirm(*Ref(1)))
	s.used(1, 5)
}

// crash continues with the store that a power loss leaves, and closes the old one.
func (s *suite) crash() {
	s.Helper()
	old := s.Instance
	s.Instance = old.Crash(s.T)
	if err := old.Close(); err != nil {
		s.Errorf("closing the store that crashed: %v", err)
	}
	s.lane = s.openLane("replica-1")
}

// position returns the position that Load returns.
func (s *suite) position() shard.Cursor {
	s.Helper()
	_, at, err := LoadRows(s.ctx, s)
	if err != nil {
		s.Fatalf("Load: %v", err)
	}
	return at
}
