package shardtest

import (
	"fmt"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// factsAsOf makes a putFacts of host 1 with an AsOf generation.
func factsAsOf(generation int64, namespace, facts string) *shard.PutFacts {
	p := putFacts(1, namespace, facts)
	p.AsOf = generation
	return p
}

// goneClauses test what the store remembers about deleted namespaces.
func goneClauses() []clause {
	return []clause{
		{name: "NewNamespacesOfAHostDoNotOvertakeEachOther", test: func(s *suite) {
			s.do(NewHost(1, 8))
			for n := range 5 {
				s.do(factsAsOf(1, fmt.Sprintf("n%d", n), `{}`), NewClaim(n, 1, 1))
			}
			// Repeated writes and deletions do not overtake each other either.
			before := s.rows().Usages[HostID(1)].Generation
			for n := range 5 {
				s.do(factsAsOf(before, fmt.Sprintf("n%d", n), ""))
			}
			after := s.rows().Usages[HostID(1)].Generation
			for n := range 5 {
				s.do(factsAsOf(after, fmt.Sprintf("n%d", n), `{"a":1}`))
			}
		}},
		{name: "AHostWithoutFactsIsAsOfItsOwnGeneration", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 1))
			if o := s.refused(factsAsOf(1, "cinder", `{}`), fault.StaleGeneration); o.Newest != 2 {
				s.Errorf("refused with generation %d, the host is of 2", o.Newest)
			}
			s.do(factsAsOf(2, "cinder", `{}`))
			s.refused(factsAsOf(1, "neutron", `{}`), fault.StaleGeneration)
			s.do(factsAsOf(2, "neutron", `{}`))
		}},
		{name: "AWriteOverAnEarlierGenerationDoesNotBringItBack", needs: []string{"reopen"}, test: func(s *suite) {
			s.do(NewHost(1, 8), putFacts(1, "cinder", `{"a":1}`), putFacts(1, "neutron", `{"a":1}`))
			s.do(putFacts(1, "cinder", "")) // generation 4
			s.do(factsAsOf(3, "neutron", `{"a":2}`))
			for range 2 {
				s.refused(factsAsOf(3, "cinder", `{"a":2}`), fault.StaleGeneration)
				s.refused(factsAsOf(3, "cinder", ""), fault.StaleGeneration)
				if n := s.namespaceOf(1, "cinder"); n != nil {
					s.Fatalf("there is %+v", n)
				}
				s.reopen()
			}
			// Deleting a deleted namespace again is a write too.
			s.do(factsAsOf(4, "cinder", "")) // generation 6
			s.refused(factsAsOf(5, "cinder", `{"a":2}`), fault.StaleGeneration)
			n := s.do(factsAsOf(6, "cinder", `{"a":2}`)).Namespace
			if n.Generation != 7 || !equalRows(n, s.namespaceOf(1, "cinder")) {
				s.Errorf("it came back as %+v, there is %+v", n, s.namespaceOf(1, "cinder"))
			}
			s.apply(opOf(factsAsOf(7, "cinder", "")), opOf(factsAsOf(8, "cinder", `{"a":3}`)))
			if n := s.namespaceOf(1, "cinder"); n == nil || n.Generation != 9 {
				s.Errorf("in one batch taken away and put, it is %+v", n)
			}
		}},
	}
}
