package shardtest

import (
	"errors"
	"slices"

	"cellgate/shard"
)

func loadClauses() []clause {
	return []clause{
		{name: "AnEmptyShardHasNothing", test: func(s *suite) {
			rows, at, err := LoadRows(s.ctx, s)
			if err != nil || len(rows.Hosts)+len(rows.Usages)+len(rows.Claims)+len(rows.Pins)+len(rows.Namespaces)+len(rows.AdminStates)+len(rows.Names) != 0 || len(at) != 0 {
				s.Errorf("loaded %+v at %v, %v", rows, at, err)
			}
		}},
		{name: "TheGateThenHostsThenUsagesThenLiveClaimsThenPinsThenNamespacesThenAdminStatesThenNames", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(1, 1, 1), NewClaim(2, 2, 1), NewClaim(3, 2, 1), release(*Ref(3)))
			s.do(newPin(1, "a"), moveGate(0, shard.GateLegacy), putFacts(2, "cinder", `{}`), setAdmin(1, shard.ConditionDisabled))
			s.do(shard.Op{PutName: &shard.NameRef{Kind: shard.TraitName, Name: "CUSTOM_T"}})
			var kinds []int
			_, err := s.Load(s.ctx, func(c shard.Change) error {
				switch {
				case c.Host != nil:
					kinds = append(kinds, 0)
				case c.Usage != nil:
					kinds = append(kinds, 1)
				case c.Claim != nil:
					kinds = append(kinds, 2)
				case c.Pin != nil:
					kinds = append(kinds, 3)
				case c.Gate != nil:
					kinds = append(kinds, 4)
				case c.Namespace != nil:
					kinds = append(kinds, 5)
				case c.AdminState != nil:
					kinds = append(kinds, 6)
				case c.Name != nil:
					kinds = append(kinds, 7)
				}
				return nil
			})
			if want := []int{4, 0, 0, 1, 1, 2, 2, 3, 5, 6, 7}; err != nil || !slices.Equal(kinds, want) {
				s.Errorf("visited %v, %v; want %v", kinds, err, want)
			}
		}},
		{name: "AnErrorOfTheVisitorEndsIt", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8))
			stop := errors.New("enough")
			n := 0
			_, err := s.Load(s.ctx, func(shard.Change) error { n++; return stop })
			if !errors.Is(err, stop) || n != 1 {
				s.Errorf("visited %d, %v", n, err)
			}
		}},
		{name: "TheVisitorMayUseTheStore", test: func(s *suite) {
			s.do(NewHost(1, 8))
			_, err := s.Load(s.ctx, func(c shard.Change) error {
				s.do(NewClaim(1, 1, 1))
				_, err := s.Now(s.ctx)
				return err
			})
			if err != nil {
				s.Error(err)
			}
		}},
		{name: "RowsGivenOutDoNotChange", test: func(s *suite) {
			s.do(NewHost(1, 8))
			c := s.do(NewClaim(1, 1, 1)).Claim
			before := s.rows()
			usage := *before.Usages[HostID(1)]
			s.do(NewClaim(2, 1, 4), confirm(*Ref(1)))
			if c.State != shard.Pending || usage.Of(HostID(1), Class) != 1 || before.Usages[HostID(1)].Of(HostID(1), Class) != 1 {
				s.Errorf("a row changed under its reader: %+v, %+v", c, before.Usages[HostID(1)])
			}
		}},
	}
}
