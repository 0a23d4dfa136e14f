package shardtest

import (
	"time"

	"cellgate/shard"
)

func expireClauses() []clause {
	return []clause{
		{name: "I4_AClaimNobodyConfirmsEndsWithItsLease", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 3))
			s.Advance(time.Minute + time.Second)
			due := s.due(10)
			if len(due) != 1 || due[0] != *Ref(1) {
				s.Fatalf("due are %v", due)
			}
			if c := s.do(expire(due[0])).Claim; c.State != shard.Expired || !c.ExpiresAt.IsZero() {
				s.Errorf("claim is %s, expires at %v", c.State, c.ExpiresAt)
			}
			s.used(1, 0)
			s.do(NewClaim(2, 1, 8))
		}},
		{name: "I4_AClaimIsFoundByItsConsumer", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 3))
			p, err := s.FindClaims(s.ctx, shard.ClaimQuery{ConsumerUUIDs: []string{ConsumerID(1)}})
			if err != nil || len(p.Claims) != 1 || p.Claims[0].ClaimID != ClaimID(1) {
				s.Errorf("found %+v, %v", p, err)
			}
		}},
		{name: "DueIsTheLongestOverdueFirst", test: func(s *suite) {
			s.do(NewHost(1, 8))
			for n, ttl := range map[int]time.Duration{1: 30 * time.Second, 2: 10 * time.Second, 3: 20 * time.Second, 4: 10 * time.Minute} {
				c := NewClaim(n, 1, 1)
				c.TTL = ttl
				s.do(c)
			}
			s.Advance(time.Minute)
			want := []shard.ClaimRef{*Ref(2), *Ref(3), *Ref(1)}
			if due := s.due(10); !equalRows(&due, &want) {
				s.Errorf("due are %v, want %v", due, want)
			}
			want = want[:2]
			if due := s.due(2); !equalRows(&due, &want) {
				s.Errorf("due are %v, want %v", due, want)
			}
			s.do(confirm(*Ref(2)), release(*Ref(3)))
			want = []shard.ClaimRef{*Ref(1)}
			if due := s.due(10); !equalRows(&due, &want) {
				s.Errorf("due are %v, want %v", due, want)
			}
		}},
	}
}

func (s *suite) due(limit int) []shard.ClaimRef {
	s.Helper()
	refs, err := s.Due(s.ctx, limit)
	if err != nil {
		s.Fatalf("Due: %v", err)
	}
	return refs
}
