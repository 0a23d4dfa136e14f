package sqlshard

import (
	"slices"
	"strings"
	"unicode/utf8"

	"cellgate/shard"
)

// names are the rows that a transaction locks and reads: the read set of its operations, and the additional rows that
// earlier tries found. Lists are sorted, without duplicates.
type names struct {
	hosts, hostClaims, aligned, consumers, groups, pins, namespaces, custom []string
	// gate: the gate is read; movesGate: it is also locked.
	gate, movesGate bool
	// claims are keys.
	claims []string
	// guarded are the claims, by id, that can become live again or move to another host. So their groups must be read
	// and, if they have hardware, the claims on the hosts of their landings.
	guarded map[string]bool
	// landings are these claims with their hosts.
	landings []shard.Landing
	// fill are the consumers whose row is inserted if it does not exist.
	fill map[string]bool
	// released are the claims, by id, whose release leaves a tombstone if they do not exist, with their consumers. The
	// consumer's row keeps another replica from making the claim meanwhile.
	released map[string]string
}

// namesOf gives the names of a batch.
func (s *Store) namesOf(ops []shard.Op) *names {
	f := shard.ReadSetOf(ops)
	n := &names{
		hosts: f.Hosts, hostClaims: f.HostClaims, aligned: f.Aligned, consumers: f.Consumers, groups: f.Groups, pins: f.Pins, namespaces: f.Namespaces, gate: f.Gate, movesGate: f.MovesGate,
		claims: keysOf(f.Claims), landings: f.Landings, guarded: map[string]bool{}, fill: map[string]bool{}, released: map[string]string{},
	}
	for _, name := range f.Names {
		n.custom = append(n.custom, customKey(name))
	}
	for _, id := range f.Claims {
		if h := s.homes.hostOfClaim(id); h != "" {
			n.hosts = append(n.hosts, h)
		}
	}
	expires := map[string]bool{}
	for _, op := range ops {
		switch {
		case op.Expire != nil:
			expires[op.Expire.ClaimID] = true
		case op.Release != nil && op.Release.ReportedGoneBy == nil:
			n.released[op.Release.ClaimID] = op.Release.ConsumerUUID
		case op.Swap != nil:
			n.guarded[op.Swap.ClaimID] = true
		case op.Confirm != nil && expires[op.Confirm.ClaimID]:
			n.guarded[op.Confirm.ClaimID] = true
		case op.Claim != nil && op.Claim.Group.Hard():
			for _, m := range op.Claim.Group.Members {
				if keepable(m) {
					n.fill[m] = true
				}
			}
		}
	}
	for _, l := range f.Landings {
		if !n.guarded[l.ClaimID] {
			n.guarded[l.ClaimID] = false // only if it is EXPIRED
		}
	}
	n.tidy()
	return n
}

// keepable reports whether a database can store a text. A name that it cannot store matches no row, and its operation
// is refused.
func keepable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

func unkeepable(s string) bool { return !keepable(s) }

func (n *names) tidy() {
	n.claims = slices.DeleteFunc(n.claims, unkeepable)
	for _, l := range []*[]string{&n.hosts, &n.hostClaims, &n.aligned, &n.consumers, &n.groups, &n.pins, &n.namespaces, &n.custom} {
		*l = slices.DeleteFunc(*l, unkeepable)
		slices.Sort(*l)
		*l = slices.Compact(*l)
	}
}

// widen adds names that a try found missing, and reports whether some are new.
func (n *names) widen(hosts, hostClaims, consumers, groups []string) bool {
	before := len(n.hosts) + len(n.hostClaims) + len(n.consumers) + len(n.groups)
	n.hosts = append(n.hosts, hosts...)
	n.hostClaims = append(n.hostClaims, hostClaims...)
	n.consumers = append(n.consumers, consumers...)
	n.groups = append(n.groups, groups...)
	n.tidy()
	return len(n.hosts)+len(n.hostClaims)+len(n.consumers)+len(n.groups) > before
}

func has(sorted []string, name string) bool {
	_, ok := slices.BinarySearch(sorted, name)
	return ok
}
