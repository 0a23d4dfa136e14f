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
		{name: "OnlyTheNewestThatAreGoneAreKept", needs: []string{"reopen"}, test: func(s *suite) {
			s.do(NewHost(1, 8))
			name := func(n int) string { return fmt.Sprintf("n%d", n) }
			// Namespace n goes at generation 3+2n.
			const all = shard.MaxGone + 3
			for n := range all {
				s.do(putFacts(1, name(n), `{}`), putFacts(1, name(n), ""))
			}
			for range 2 {
				// The store checks a remembered namespace by its own generation, and all others by the last one that
				// it forgot.
				s.refused(factsAsOf(2+2*3, name(3), `{}`), fault.StaleGeneration)
				for _, other := range []string{name(0), name(2), "never"} {
					s.refused(factsAsOf(2+2*2, other, `{}`), fault.StaleGeneration)
				}
				if left := s.rows().Namespaces; len(left) != 0 {
					s.Errorf("there are %v", left)
				}
				s.reopen()
			}
			s.do(factsAsOf(3+2*3, name(3), `{}`), factsAsOf(3+2*2, name(0), `{}`), factsAsOf(3+2*2, "never", `{}`))
			var ops []shard.Op
			for n := range shard.MaxNamespaces - 3 {
				ops = append(ops, opOf(putFacts(1, fmt.Sprintf("m%d", n), `{}`)))
			}
			for _, o := range s.apply(ops...).Outcomes {
				if o.Refusal != nil {
					s.Fatalf("those that are gone count: %v", o.Refusal)
				}
			}
			// One batch forgets two namespaces. The store treats both as gone at the later one's generation, and they
			// are put again.
			a := s.apply(opOf(putFacts(1, "never", "")), opOf(putFacts(1, "m0", "")), opOf(putFacts(1, "m1", "")),
				opOf(factsAsOf(3+2*4, name(4), `{}`)), opOf(putFacts(1, name(4), `{}`)), opOf(factsAsOf(3+2*5, name(5), `{}`)))
			if r := a.Outcomes[3].Refusal; r == nil || r.Kind != fault.StaleGeneration {
				s.Errorf("a write over the generation at which a forgotten one went: %v", r)
			}
			if s.namespaceOf(1, name(4)) == nil || s.namespaceOf(1, name(5)) == nil {
				s.Error("what was forgotten and put again is not there")
			}
		}},
	}
}
