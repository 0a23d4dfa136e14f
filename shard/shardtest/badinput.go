package shardtest

import (
	"math"
	"strings"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

func badInputClauses() []clause {
	return []clause{
		{name: "ABadClaimIsRefusedByField", test: func(s *suite) {
			s.do(NewHost(1, 8))
			for field, spoil := range map[string]func(*shard.NewClaim){
				"claim_id":                      func(c *shard.NewClaim) { c.ClaimID = "" },
				"claim_id ":                     func(c *shard.NewClaim) { c.ClaimID = "a b" },
				"claim_id  ":                    func(c *shard.NewClaim) { c.ClaimID = strings.Repeat("x", 256) },
				"consumer_uuid":                 func(c *shard.NewClaim) { c.ConsumerUUID = "" },
				"host_uuid":                     func(c *shard.NewClaim) { c.HostUUID = "\x00" },
				"allocations":                   func(c *shard.NewClaim) { c.Allocations = nil },
				"allocations[0].amount":         func(c *shard.NewClaim) { c.Allocations[0].Amount = 0 },
				"allocations[0].amount ":        func(c *shard.NewClaim) { c.Allocations[0].Amount = -1 },
				"allocations[0].amount  ":       func(c *shard.NewClaim) { c.Allocations[0].Amount = math.MaxInt64 },
				"allocations[0].provider_uuid":  func(c *shard.NewClaim) { c.Allocations[0].ProviderUUID = "" },
				"allocations[0].resource_class": func(c *shard.NewClaim) { c.Allocations[0].ResourceClass = "" },
				"allocations[1]":                func(c *shard.NewClaim) { c.Allocations = append(c.Allocations, c.Allocations[0]) },
				"ttl":                           func(c *shard.NewClaim) { c.TTL = 0 },
				"ttl ":                          func(c *shard.NewClaim) { c.TTL = -time.Second },
				"ttl  ":                         func(c *shard.NewClaim) { c.TTL = shard.MaxClaimTTL + 1 },
				"group.uuid":                    func(c *shard.NewClaim) { c.Group = &shard.Group{Policy: "affinity"} },
				"group.policy":                  func(c *shard.NewClaim) { c.Group = &shard.Group{UUID: GroupID(1), Policy: "nearby"} },
				"group.members[0]": func(c *shard.NewClaim) {
					c.Group = &shard.Group{UUID: GroupID(1), Policy: "affinity", Members: []string{""}}
				},
				"moves_claim_id":                  func(c *shard.NewClaim) { c.Moves = "a b" },
				"moves_claim_id ":                 func(c *shard.NewClaim) { c.Moves = c.ClaimID },
				"moves_cell":                      func(c *shard.NewClaim) { c.MovesCell = "cell9" },
				"guest.flavor_id":                 func(c *shard.NewClaim) { c.Guest.FlavorID = "\xff" },
				"guest":                           func(c *shard.NewClaim) { c.Guest.Hardware = make([]byte, shard.MaxGuest+1) },
				"project_id, user_id, request_id": func(c *shard.NewClaim) { c.RequestID = "\xff" },
				"project_id, user_id":             func(c *shard.NewClaim) { c.UserID = "a\x00b" },
			} {
				c := NewClaim(1, 1, 1)
				spoil(c)
				s.namesField(c, strings.TrimRight(field, " "))
			}
			s.do(NewClaim(1, 1, 1))
		}},
		{name: "ABadReferenceIsRefusedByField", test: func(s *suite) {
			s.namesField(confirm{ConsumerUUID: ConsumerID(1)}, "claim_id")
			s.namesField(release{ClaimID: ClaimID(1)}, "consumer_uuid")
			s.namesField(expire{ClaimID: "\n", ConsumerUUID: ConsumerID(1)}, "claim_id")
			s.namesField(&shard.Unpin{ClaimID: ClaimID(1)}, "group_uuid")
			s.namesField(&shard.Unpin{GroupUUID: GroupID(1)}, "claim_id")
		}},
		{name: "ABadPinIsRefusedByField", test: func(s *suite) {
			for field, spoil := range map[string]func(*shard.NewPin){
				"group_uuid":   func(p *shard.NewPin) { p.GroupUUID = "" },
				"service_host": func(p *shard.NewPin) { p.ServiceHost = "" },
				"claim_id":     func(p *shard.NewPin) { p.ClaimID = "" },
				"ttl":          func(p *shard.NewPin) { p.TTL = 0 },
			} {
				p := newPin(1, "a")
				spoil(p)
				s.namesField(p, field)
			}
		}},
		{name: "ABadHostIsRefusedByField", test: func(s *suite) {
			for field, spoil := range map[string]func(*shard.PutHost){
				"host.uuid":                                       func(p *shard.PutHost) { p.Host.UUID = "" },
				"host.service_host":                               func(p *shard.PutHost) { p.Host.ServiceHost = "" },
				"host.service_host ":                              func(p *shard.PutHost) { p.Host.ServiceHost = "\xc3\x28" },
				"host.facts":                                      func(p *shard.PutHost) { p.Host.Facts = &shard.Facts{Stats: "\x00"} },
				"host.providers":                                  func(p *shard.PutHost) { p.Host.Providers = nil },
				"host.providers[0].uuid":                          func(p *shard.PutHost) { p.Host.Providers[0].UUID = HostID(2) },
				"host.providers[0].parent_uuid":                   func(p *shard.PutHost) { p.Host.Providers[0].ParentUUID = HostID(2) },
				"host.providers[1].uuid":                          func(p *shard.PutHost) { p.Host.Providers = append(p.Host.Providers, p.Host.Providers[0]) },
				"host.providers[1].parent_uuid":                   func(p *shard.PutHost) { p.Host.Providers = append(p.Host.Providers, shard.Provider{UUID: HostID(2)}) },
				"host.providers[0].inventories[0].resource_class": func(p *shard.PutHost) { p.Host.Providers[0].Inventories[0].ResourceClass = "" },
				"host.providers[0].inventories[0].total":          func(p *shard.PutHost) { p.Host.Providers[0].Inventories[0].Total = -1 },
				"host.providers[0].inventories[0].reserved":       func(p *shard.PutHost) { p.Host.Providers[0].Inventories[0].Reserved = -1 },
				"host.providers[0].inventories[0].min_unit":       func(p *shard.PutHost) { p.Host.Providers[0].Inventories[0].MinUnit = 0 },
				"host.providers[0].inventories[0].max_unit":       func(p *shard.PutHost) { p.Host.Providers[0].Inventories[0].MaxUnit = 0 },
				"host.providers[0].inventories[0].step_size":      func(p *shard.PutHost) { p.Host.Providers[0].Inventories[0].StepSize = 0 },
				"host.providers[0].inventories[0].allocation_ratio": func(p *shard.PutHost) {
					p.Host.Providers[0].Inventories[0].AllocationRatio = math.NaN()
				},
				"instances": func(p *shard.PutHost) {
					p.Host.InstancesUnknown, p.Instances = true, []shard.Instance{{UUID: "a"}}
				},
				"instances[0].uuid": func(p *shard.PutHost) { p.Instances = []shard.Instance{{}} },
				"instances[1].uuid": func(p *shard.PutHost) { p.Instances = []shard.Instance{{UUID: "a"}, {UUID: "a"}} },
				"instances[0].allocations[0].amount": func(p *shard.PutHost) {
					p.Instances = []shard.Instance{{UUID: "a", Allocations: []shard.Used{{ProviderUUID: "p", ResourceClass: Class, Amount: -1}}}}
				},
			} {
				p := NewHost(1, 8)
				spoil(p)
				s.namesField(p, strings.TrimRight(field, " "))
			}
			if n := len(s.rows().Hosts); n != 0 {
				s.Errorf("%d hosts were written", n)
			}
		}},
		{name: "AnOperationIsExactlyOne", test: func(s *suite) {
			s.refused(shard.Op{}, fault.InvalidRequest)
			s.refused(shard.Op{Claim: NewClaim(1, 1, 1), Unpin: unpin(1)}, fault.InvalidRequest)
		}},
		{name: "ABadOperationSpoilsNoOther", test: func(s *suite) {
			a := s.apply(opOf(NewHost(1, 8)), shard.Op{}, opOf(NewClaim(1, 1, 1)))
			if a.Outcomes[0].Refusal != nil || a.Outcomes[1].Refusal == nil || a.Outcomes[2].Refusal != nil {
				s.Errorf("outcomes are %+v", a.Outcomes)
			}
		}},
	}
}

// namesField runs an operation that must be refused as invalid, naming a field.
func (s *suite) namesField(op any, field string) {
	s.Helper()
	if r := s.refused(op, fault.InvalidRequest).Refusal; !strings.HasPrefix(r.Message, field) {
		s.Errorf("%T refused with %q, want it to begin with %q", op, r.Message, field)
	}
}
