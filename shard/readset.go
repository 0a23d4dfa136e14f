package shard

// ReadSetOf names the rows that a batch reads.
func ReadSetOf(ops []Op) ReadSet {
	var f ReadSet
	var hostClaims, aligned, groups, pins, namespaces names
	var hardware map[string]bool // claims of the batch that ask for hardware
	hosts, claims, consumers := make(names, len(ops)), make(names, len(ops)), make(names, len(ops))
	for i := range ops {
		op := &ops[i]
		switch {
		case op.PutHost != nil:
			f.Gate = true
			hosts.add(&f.Hosts, op.PutHost.Host.UUID)
			hostClaims.add(&f.HostClaims, op.PutHost.Host.UUID)
			if !op.PutHost.Host.InstancesUnknown {
				aligned.add(&f.Aligned, op.PutHost.Host.UUID)
			}
			for _, i := range op.PutHost.Instances {
				consumers.add(&f.Consumers, i.UUID)
			}
		case op.Claim != nil:
			claims.add(&f.Claims, op.Claim.ClaimID)
			consumers.add(&f.Consumers, op.Claim.ConsumerUUID)
			hosts.add(&f.Hosts, op.Claim.HostUUID)
			if op.Claim.Guest.HasHardware() {
				hostClaims.add(&f.HostClaims, op.Claim.HostUUID)
				if hardware == nil {
					hardware = map[string]bool{}
				}
				hardware[op.Claim.ClaimID] = true
			}
			if g := op.Claim.Group; g.Hard() {
				groups.add(&f.Groups, g.UUID)
				for _, m := range g.Members {
					consumers.add(&f.Consumers, m)
				}
			}
		case op.Confirm != nil:
			claims.add(&f.Claims, op.Confirm.ClaimID)
			f.Landings = append(f.Landings, Landing{ClaimID: op.Confirm.ClaimID})
			// An expired claim may come back only if its consumer has no other; the claim that it moves is released.
			consumers.add(&f.Consumers, op.Confirm.ConsumerUUID)
		case op.Release != nil:
			claims.add(&f.Claims, op.Release.ClaimID)
			if op.Release.ReportedGoneBy != nil {
				consumers.add(&f.Consumers, op.Release.ConsumerUUID)
			}
		case op.TakeOver != nil:
			claims.add(&f.Claims, op.TakeOver.ClaimID)
		case op.Expire != nil:
			claims.add(&f.Claims, op.Expire.ClaimID)
			consumers.add(&f.Consumers, op.Expire.ConsumerUUID)
		case op.Audit != nil:
			hosts.add(&f.Hosts, op.Audit.HostUUID)
			hostClaims.add(&f.HostClaims, op.Audit.HostUUID)
		case op.RecordVerdict != nil:
			claims.add(&f.Claims, op.RecordVerdict.ClaimID)
		case op.Swap != nil:
			claims.add(&f.Claims, op.Swap.ClaimID)
			f.Landings = append(f.Landings, Landing{op.Swap.ClaimID, op.Swap.HostUUID})
			consumers.add(&f.Consumers, op.Swap.ConsumerUUID)
			hosts.add(&f.Hosts, op.Swap.HostUUID)
		case op.Transfer != nil:
			claims.add(&f.Claims, op.Transfer.ClaimID)
			consumers.add(&f.Consumers, op.Transfer.ConsumerUUID)
			consumers.add(&f.Consumers, op.Transfer.ToConsumer)
		case op.PutFacts != nil:
			hosts.add(&f.Hosts, op.PutFacts.HostUUID)
			namespaces.add(&f.Namespaces, op.PutFacts.HostUUID)
		case op.SetAdminState != nil:
			hosts.add(&f.Hosts, op.SetAdminState.HostUUID)
			if op.SetAdminState.EndsNova { // what claims take of its devices is assigned anew
				hostClaims.add(&f.HostClaims, op.SetAdminState.HostUUID)
			}
		case op.SetNovaState != nil:
			hosts.add(&f.Hosts, op.SetNovaState.HostUUID)
		case op.SetSilent != nil:
			hosts.add(&f.Hosts, op.SetSilent.HostUUID)
		case op.RemoveHost != nil:
			hosts.add(&f.Hosts, op.RemoveHost.HostUUID)
			hostClaims.add(&f.HostClaims, op.RemoveHost.HostUUID)
		case op.WritePlacement != nil:
			for i := range op.WritePlacement.Providers {
				p := &op.WritePlacement.Providers[i]
				hosts.add(&f.Hosts, p.HostUUID)
				hosts.add(&f.Hosts, p.ParentHost)
				if p.Parent != nil && *p.Parent == "" {
					hosts.add(&f.Hosts, p.UUID)
				}
			}
			for i := range op.WritePlacement.Consumers {
				c := &op.WritePlacement.Consumers[i]
				consumers.add(&f.Consumers, c.UUID)
				for _, root := range c.Allocations {
					hosts.add(&f.Hosts, root.HostUUID)
				}
			}
		case op.PutName != nil:
			f.Names = append(f.Names, *op.PutName)
		case op.DeleteName != nil:
			f.Names = append(f.Names, *op.DeleteName)
		case op.EndMaintenance != nil:
			hosts.add(&f.Hosts, op.EndMaintenance.HostUUID)
		case op.MoveGate != nil:
			f.Gate, f.MovesGate = true, true
		case op.Pin != nil:
			pins.add(&f.Pins, op.Pin.GroupUUID)
		case op.Unpin != nil:
			pins.add(&f.Pins, op.Unpin.GroupUUID)
		}
	}
	for _, l := range f.Landings {
		if hardware[l.ClaimID] {
			hostClaims.add(&f.HostClaims, l.HostUUID)
		}
	}
	return f
}

// names is a set whose members are also listed in the order of their arrival.
type names map[string]struct{}

func (n *names) add(to *[]string, name string) {
	if name == "" {
		return
	}
	if _, ok := (*n)[name]; ok {
		return
	}
	if *n == nil {
		*n = names{}
	}
	(*n)[name] = struct{}{}
	*to = append(*to, name)
}
