package shardtest

import (
	"fmt"
	"strings"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// putFacts makes the operation that writes a namespace of host n. Empty facts delete the namespace.
func putFacts(n int, namespace, facts string) *shard.PutFacts {
	return &shard.PutFacts{HostUUID: HostID(n), Namespace: namespace, Facts: facts}
}

// factsAsOf makes a putFacts of host 1 with an AsOf generation.
func factsAsOf(generation int64, namespace, facts string) *shard.PutFacts {
	p := putFacts(1, namespace, facts)
	p.AsOf = generation
	return p
}

// namespaceOf returns a host's namespace, or nil if there is none.
func (s *suite) namespaceOf(n int, namespace string) *shard.Namespace {
	s.Helper()
	return s.rows().Namespaces[HostID(n)+" "+namespace]
}

func factsClauses() []clause {
	return []clause{
		{name: "ANamespaceIsKeptInOneForm", test: func(s *suite) {
			s.do(NewHost(1, 8))
			o := s.do(putFacts(1, "cinder", "{ \"b\": [1.50, \"ä<&\"],\n\t\"a\": {\"x\": null} }"))
			got := s.namespaceOf(1, "cinder")
			if want := `{"a":{"x":null},"b":[1.50,"ä<&"]}`; got == nil || got.Facts != want || got.HostUUID != HostID(1) || got.Name != "cinder" {
				s.Fatalf("the namespace is %+v, want the facts %s", got, want)
			}
			if !equalRows(o.Namespace, got) || got.Generation != 2 {
				s.Errorf("answered was %+v, the row is %+v", o.Namespace, got)
			}
			s.nothing(putFacts(1, "cinder", `{"a":{"x":null},"b":[1.50,"ä<&"]}`))
			s.do(putFacts(1, "cinder", `{}`))
			if got := s.namespaceOf(1, "cinder"); got == nil || got.Facts != "{}" || got.Generation != 3 {
				s.Errorf("the namespace is %+v", got)
			}
		}},
		{name: "NoReportOfTheHostTouchesIt", test: func(s *suite) {
			s.do(NewHost(1, 8))
			before := s.do(putFacts(1, "cinder", `{"free_gb": 3}`)).Namespace
			again := NewHost(1, 16)
			again.Host.BootID, again.Host.Facts.Namespaces = "boot-2", `{"rack":{"power":1}}`
			s.do(again, NewClaim(1, 1, 2))
			if got := s.namespaceOf(1, "cinder"); !equalRows(got, before) {
				s.Errorf("the namespace is %+v, was %+v", got, before)
			}
			if h := s.rows().Hosts[HostID(1)]; h.Facts.Namespaces != `{"rack":{"power":1}}` {
				s.Errorf("the host's own are %q", h.Facts.Namespaces)
			}
		}},
		{name: "GenerationsOfAHostsRowsAreInOneOrder", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 1))
			used := s.rows().Usages[HostID(1)]
			n := s.do(putFacts(1, "cinder", `{"free_gb": 3}`)).Namespace
			after := s.rows().Usages[HostID(1)]
			if n.Generation != used.Generation+1 || after.Generation != n.Generation || after.Pending != 1 {
				s.Errorf("of usage %+v comes namespace %+v and usage %+v", used, n, after)
			}
			s.do(NewClaim(2, 1, 1))
			if u := s.rows().Usages[HostID(1)]; u.Generation != n.Generation+1 {
				s.Errorf("a claim after it makes %+v", u)
			}
			s.used(1, 2)
		}},
		{name: "OneThatIsTakenAwayIsGoneAndComesBackNewer", test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.nothing(putFacts(1, "cinder", ""))
			first := s.do(putFacts(1, "cinder", `{"a":1}`)).Namespace
			s.do(putFacts(1, "neutron", `{"a":1}`))
			if o := s.do(putFacts(1, "cinder", "")); o.Namespace != nil {
				s.Errorf("answered was %+v", o.Namespace)
			}
			if got := s.namespaceOf(1, "cinder"); got != nil {
				s.Errorf("there is %+v", got)
			}
			if s.namespaceOf(1, "neutron") == nil {
				s.Error("another namespace went with it")
			}
			if n := s.do(putFacts(1, "cinder", `{"a":1}`)).Namespace; n.Generation <= first.Generation {
				s.Errorf("it came back as %+v, was %+v", n, first)
			}
			s.apply(opOf(putFacts(1, "cinder", "")), opOf(putFacts(1, "cinder", `{"a":2}`)))
			if n := s.namespaceOf(1, "cinder"); n == nil || n.Facts != `{"a":2}` {
				s.Errorf("in one batch taken away and put, it is %+v", n)
			}
		}},
		{name: "OnlyOfTheGenerationThatIsNamed", test: func(s *suite) {
			s.do(NewHost(1, 8))
			at := func(generation int64, facts string) *shard.PutFacts {
				p := putFacts(1, "cinder", facts)
				p.IfGeneration = generation
				return p
			}
			s.refused(at(7, `{}`), fault.StaleGeneration)
			s.refused(at(7, ""), fault.StaleGeneration)
			n := s.do(at(-1, `{}`)).Namespace
			if o := s.refused(at(-1, `{"a":1}`), fault.StaleGeneration); !equalRows(o.Namespace, n) {
				s.Errorf("refused with %+v, there is %+v", o.Namespace, n)
			}
			s.refused(at(n.Generation+1, `{"a":1}`), fault.StaleGeneration)
			n = s.do(at(n.Generation, `{"a":1}`)).Namespace
			s.do(at(n.Generation, ""), at(-1, `{}`))
		}},
		{name: "AWriteOverAnOlderGenerationIsRefused", test: func(s *suite) {
			s.do(NewHost(1, 8))
			factsAsOf := func(generation int64, facts string) *shard.PutFacts { return factsAsOf(generation, "cinder", facts) }
			generation := func() int64 { return s.rows().Usages[HostID(1)].Generation }
			n := s.do(factsAsOf(1, `{"a":1}`)).Namespace
			if o := s.refused(factsAsOf(1, `{"a":2}`), fault.StaleGeneration); o.Newest != n.Generation || n.Generation != 2 {
				s.Errorf("refused with generation %d, there is %+v", o.Newest, n)
			}
			s.do(NewClaim(1, 1, 1)) // a claim raises the host's generation, not the namespace's
			s.do(putFacts(1, "neutron", `{}`))
			again := s.do(factsAsOf(2, `{ "a": 1 }`)).Namespace
			if again.Facts != n.Facts || again.Generation != 5 || !equalRows(again, s.namespaceOf(1, "cinder")) {
				s.Errorf("of %+v the same again makes %+v", n, again)
			}
			s.refused(factsAsOf(4, ""), fault.StaleGeneration)
			// The namespace goes at generation 6.
			s.do(factsAsOf(5, ""))
			s.refused(factsAsOf(5, `{"a":3}`), fault.StaleGeneration)
			if g := generation(); g != 6 {
				s.Errorf("the host is of generation %d, want 6", g)
			}
			s.do(factsAsOf(6, "")) // a second deletion, at generation 7
			if o := s.refused(factsAsOf(6, `{"a":3}`), fault.StaleGeneration); o.Newest != 7 || generation() != 7 {
				s.Errorf("refused with generation %d, the host is of %d, want 7", o.Newest, generation())
			}
			s.used(1, 1)
			s.do(factsAsOf(7, `{"a":4}`))
			s.do(putFacts(1, "cinder", `{"a":5}`)) // a write without AsOf replaces any facts
			exact := factsAsOf(100, `{"a":5}`)
			exact.IfGeneration = 8
			s.refused(exact, fault.StaleGeneration)
			exact.IfGeneration = 9
			s.do(exact)
			s.namesField(factsAsOf(-1, `{}`), "as_of_generation")
		}},
		{name: "AHostThatIsNotThereHasNoFacts", test: func(s *suite) {
			s.refused(putFacts(1, "cinder", `{}`), fault.NotFound)
			s.refused(putFacts(1, "cinder", ""), fault.NotFound)
			s.apply(opOf(NewHost(1, 8)), opOf(putFacts(1, "cinder", `{}`)))
			if s.namespaceOf(1, "cinder") == nil {
				s.Error("a host of the same batch is not there")
			}
		}},
		{name: "WhatIsBadIsRefusedByField", test: func(s *suite) {
			s.do(NewHost(1, 8))
			deep := strings.Repeat(`{"a":`, shard.MaxFactsDepth) + "1" + strings.Repeat("}", shard.MaxFactsDepth)
			s.do(putFacts(1, "deep", deep))
			for _, bad := range []struct {
				field string
				op    *shard.PutFacts
			}{
				{"host_uuid", &shard.PutFacts{Namespace: "a", Facts: "{}"}},
				{"namespace", putFacts(1, "", "{}")},
				{"namespace", putFacts(1, "Cinder", "{}")},
				{"namespace", putFacts(1, "cinder-volume", "{}")},
				{"namespace", putFacts(1, "1a", "{}")},
				{"namespace", putFacts(1, strings.Repeat("a", 64), "{}")},
				{"facts", putFacts(1, "a", "[]")},
				{"facts", putFacts(1, "a", "null")},
				{"facts", putFacts(1, "a", "{")},
				{"facts", putFacts(1, "a", "{} {}")},
				{"facts", putFacts(1, "a", `{"a":"`+"\xff"+`"}`)},
				{"facts", putFacts(1, "a", `{"a":["\u0000"]}`)},
				{"facts", putFacts(1, "a", `{"a":[1e999]}`)},
				{"facts", putFacts(1, "a", `{"a":`+deep+`}`)},
				{"facts", putFacts(1, "a", `{"a":"`+strings.Repeat("x", shard.MaxNamespace)+`"}`)},
			} {
				s.namesField(bad.op, bad.field)
			}
		}},
		{name: "AHostHasSoManyNamespacesAndSoManyBytes", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8))
			var ops []shard.Op
			for n := range shard.MaxNamespaces {
				ops = append(ops, opOf(putFacts(1, fmt.Sprintf("n%d", n), `{}`)))
			}
			s.apply(ops...)
			s.namesField(putFacts(1, "more", `{}`), "namespace")
			s.do(putFacts(1, "n0", ""), putFacts(1, "more", `{}`))
			large := `{"a":"` + strings.Repeat("x", shard.MaxNamespace-8) + `"}`
			for n := range 4 {
				s.do(putFacts(2, fmt.Sprintf("n%d", n), large))
			}
			s.namesField(putFacts(2, "n4", `{}`), "facts")
			s.do(putFacts(2, "n0", `{}`), putFacts(2, "n4", `{}`))
		}},
		{name: "WritersOfOneHostDoNotLoseEachOthers", test: func(s *suite) {
			s.do(NewHost(1, 8))
			const writers, times = 4, 8
			for n, all := range s.raceTimes(s.openLanes(writers), times, func(n, k int) []shard.Op {
				return []shard.Op{opOf(putFacts(1, fmt.Sprintf("n%d", n), fmt.Sprintf(`{"k":%d}`, k))), opOf(NewClaim(n*times+k, 1, 1))}
			}) {
				for _, a := range all {
					if r := a.Outcomes[0].Refusal; r != nil {
						s.Errorf("writer %d: %s", n, r.Message)
					}
				}
			}
			for n := range writers {
				if got := s.namespaceOf(1, fmt.Sprintf("n%d", n)); got == nil || got.Facts != fmt.Sprintf(`{"k":%d}`, times-1) {
					s.Errorf("namespace %d is %+v", n, got)
				}
			}
			s.used(1, 8)
		}},
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
		{name: "AWriteOverAnEarlierGenerationDoesNotBringItBack", test: func(s *suite) {
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
