package shardtest

import (
	"fmt"
	"slices"

	"cellgate/shard"
)

func findClauses() []clause {
	return []clause{
		{name: "QueriesNarrow", test: func(s *suite) {
			s.do(NewHost(1, 100), NewHost(2, 100))
			for n := 1; n <= 6; n++ {
				c := NewClaim(n, 1+n%2, 1)
				c.ProjectID = fmt.Sprintf("project-%d", n%3)
				s.do(c)
			}
			s.do(release(*Ref(5)), release(*Ref(6)))
			for _, q := range []struct {
				query shard.ClaimQuery
				want  []int
			}{
				{shard.ClaimQuery{}, []int{1, 2, 3, 4}},
				{shard.ClaimQuery{Ended: true}, []int{1, 2, 3, 4, 5, 6}},
				{shard.ClaimQuery{HostUUID: HostID(1)}, []int{2, 4}},
				{shard.ClaimQuery{HostUUID: HostID(1), Ended: true}, []int{2, 4, 6}},
				{shard.ClaimQuery{HostUUID: HostID(3)}, nil},
				{shard.ClaimQuery{ProjectID: "project-1"}, []int{1, 4}},
				{shard.ClaimQuery{ProjectID: "project-0", HostUUID: HostID(1), Ended: true}, []int{6}},
				{shard.ClaimQuery{ClaimIDs: []string{ClaimID(5), ClaimID(2), ClaimID(99), ClaimID(2)}}, []int{2}},
				{shard.ClaimQuery{ClaimIDs: []string{ClaimID(5), ClaimID(2)}, Ended: true}, []int{2, 5}},
				{shard.ClaimQuery{ConsumerUUIDs: []string{ConsumerID(6), ConsumerID(3), ConsumerID(1)}}, []int{1, 3}},
				{shard.ClaimQuery{ConsumerUUIDs: []string{ConsumerID(6), ConsumerID(3)}, Ended: true}, []int{3, 6}},
				{shard.ClaimQuery{ConsumerUUIDs: []string{ConsumerID(3)}, ClaimIDs: []string{ClaimID(4), ClaimID(3)}}, []int{3}},
				{shard.ClaimQuery{After: ClaimID(2)}, []int{3, 4}},
				{shard.ClaimQuery{After: ClaimID(2), Ended: true, HostUUID: HostID(2)}, []int{3, 5}},
				{shard.ClaimQuery{After: ClaimID(2), HostUUID: HostID(1)}, []int{4}},
			} {
				p, err := s.FindClaims(s.ctx, q.query)
				if err != nil {
					s.Fatalf("FindClaims(%+v): %v", q.query, err)
				}
				var got, want []string
				for _, c := range p.Claims {
					got = append(got, c.ClaimID)
				}
				for _, n := range q.want {
					want = append(want, ClaimID(n))
				}
				if !slices.Equal(got, want) || p.More {
					s.Errorf("FindClaims(%+v) found %v (more: %v), want %v", q.query, got, p.More, want)
				}
			}
		}},
		{name: "PagesHaveEveryClaimOnce", test: func(s *suite) {
			s.do(NewHost(1, 100))
			for n := 1; n <= 10; n++ {
				s.do(NewClaim(n, 1, 1))
				if n%3 == 0 {
					s.do(release(*Ref(n)))
				}
			}
			for _, q := range []shard.ClaimQuery{{Ended: true}, {Ended: true, HostUUID: HostID(1)}, {HostUUID: HostID(1)}} {
				all, err := s.FindClaims(s.ctx, q)
				if err != nil {
					s.Fatal(err)
				}
				q.Limit = 3
				var got []*shard.Claim
				for {
					p, err := s.FindClaims(s.ctx, q)
					if err != nil {
						s.Fatal(err)
					}
					got = append(got, p.Claims...)
					if !p.More {
						break
					}
					if len(p.Claims) != 3 {
						s.Fatalf("a page of %d with more after it", len(p.Claims))
					}
					q.After = p.Claims[2].ClaimID
				}
				if !equalRows(&got, &all.Claims) {
					s.Errorf("by pages %d claims, at once %d", len(got), len(all.Claims))
				}
			}
		}},
		{name: "APageIsAThousandByDefault", test: func(s *suite) {
			ops := []shard.Op{opOf(NewHost(1, 2000))}
			for n := range 1001 {
				ops = append(ops, opOf(NewClaim(n, 1, 1)))
			}
			s.apply(ops...)
			p, err := s.FindClaims(s.ctx, shard.ClaimQuery{})
			if err != nil || len(p.Claims) != 1000 || !p.More {
				s.Errorf("a page of %d (more: %v), %v", len(p.Claims), p.More, err)
			}
		}},
		{name: "EarlierClaimsOfAConsumerAreFound", test: func(s *suite) {
			s.do(NewHost(1, 8))
			for n := 1; n <= 3; n++ {
				c := NewClaim(n, 1, 1)
				c.ConsumerUUID = ConsumerID(1)
				s.do(c)
				if n < 3 {
					s.do(release(shard.ClaimRef{ClaimID: ClaimID(n), ConsumerUUID: ConsumerID(1)}))
				}
			}
			p, err := s.FindClaims(s.ctx, shard.ClaimQuery{ConsumerUUIDs: []string{ConsumerID(1)}, Ended: true})
			if err != nil || len(p.Claims) != 3 {
				s.Errorf("found %d, %v", len(p.Claims), err)
			}
		}},
	}
}
