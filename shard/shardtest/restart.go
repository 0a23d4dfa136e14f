package shardtest

import (
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

func restartClauses() []clause {
	return []clause{
		{name: "AnIncarnationIsNotGivenTwice", test: func(s *suite) {
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
		{name: "WhatWasTrimmedStaysTrimmed", test: func(s *suite) {
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

// crash continues with the store that a power loss leaves, and closes the old one.
func (s *suite) crash() {
	s.Helper()
	old := s.Instance
	s.needs("crash", old.Crash != nil)
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
