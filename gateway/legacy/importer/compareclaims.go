package importer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// instanceWithin is how long after the confirmation of its claim an instance may have no row
// yet; the cell waits as long.
const instanceWithin = 5 * time.Minute

// claim is a claim of the shard. seen: a report of its host has had the instance.
type claim struct {
	*cellgatev1.Claim
	seen bool
	// isReleased: the comparison reports it as released.
	isReleased bool
}

// instances compares the claims on a host with the instances of its rows. has are the host's
// inventories after the import.
func (c *comparing) instances(state *agentv1.FullState, has []*cellgatev1.HostInventory) {
	id, name := state.GetHostUuid(), state.GetServiceHost()
	used := map[string]int64{}
	here := map[string]bool{}
	for _, i := range state.GetInstances() {
		here[i.GetInstanceUuid()] = true
		c.instance(i, id, name, used)
	}
	c.released(id, name, here, used)
	for _, i := range has {
		whole := int64(float64(i.GetTotal()-i.GetReserved())*i.GetAllocationRatio()) - int64(i.GetUnaccounted())
		if n := used[i.GetResourceClass()]; i.GetProviderUuid() == id && n > whole {
			c.say(OverCapacity, id, name, "%s: %d used of %d", i.GetResourceClass(), n, whole)
		}
	}
}

func (c *comparing) instance(i *agentv1.Instance, host, name string, used map[string]int64) {
	claims := c.claims[i.GetInstanceUuid()]
	at := slices.IndexFunc(claims, func(k *cellgatev1.Claim) bool { return k.GetHostUuid() == host })
	switch {
	case len(claims) == 0:
		c.say(InstanceAdopted, i.GetInstanceUuid(), name, "%s", usage(i))
		for _, u := range i.GetUsages() {
			used[u.GetResourceClass()] += int64(u.GetAmount())
		}
	case at < 0:
		c.say(InstanceConflict, i.GetInstanceUuid(), name, "claim %s is on %s", claims[0].GetClaimId(), claims[0].GetServiceHost())
	case claims[at].GetState() == cellgatev1.ClaimState_PENDING:
		c.say(InstanceConfirmed, i.GetInstanceUuid(), name, "claim %s", claims[at].GetClaimId())
	default:
		if diff := otherAmounts(claims[at], i); diff != "" {
			c.say(InstanceDiffers, i.GetInstanceUuid(), name, "%s", diff)
			return
		}
		c.say(InstanceEqual, i.GetInstanceUuid(), name, "")
	}
}

// otherAmounts gives how a claim's amounts differ from its instance's row, and what follows;
// "" for no difference. It ignores disk, since a row has neither swap nor volumes, and
// classes that the claim does not have, since its flavor may replace them.
func otherAmounts(k *cellgatev1.Claim, i *agentv1.Instance) string {
	if k.GetTransferredFrom() != "" {
		return ""
	}
	holds := map[string]int64{}
	for _, a := range k.GetAllocations() {
		if a.GetProviderUuid() == k.GetHostUuid() {
			holds[a.GetResourceClass()] += int64(a.GetAmount())
		}
	}
	var all []string
	for _, u := range i.GetUsages() {
		class := u.GetResourceClass()
		if n, has := holds[class]; has && class != diskGB && n != int64(u.GetAmount()) {
			all = append(all, fmt.Sprintf("%s %d, its row has %d", class, n, u.GetAmount()))
		}
	}
	if len(all) == 0 {
		return ""
	}
	comes := "a request made it, and no import changes it"
	if k.GetAdopted() {
		comes = "it is adopted, and an import has it follow its row"
	}
	return fmt.Sprintf("claim %s holds %s; %s", k.GetClaimId(), strings.Join(all, "; "), comes)
}

// released reports the claims that the shard will end since their instances are gone, and
// adds up the usage of the others.
func (c *comparing) released(host, name string, here map[string]bool, used map[string]int64) {
	for _, k := range c.on[host] {
		ends := k.GetAdopted() || k.seen && k.GetState() == cellgatev1.ClaimState_CONFIRMED
		if ends && k.GetTransferredFrom() == "" && !here[k.GetConsumerUuid()] {
			k.isReleased = true
			c.say(InstanceReleased, k.GetConsumerUuid(), name, "claim %s", k.GetClaimId())
			continue
		}
		for _, a := range k.GetAllocations() {
			if a.GetProviderUuid() == host {
				used[a.GetResourceClass()] += int64(a.GetAmount())
			}
		}
	}
}

// withoutInstance reports claims of requests that were confirmed long before the rows were
// read, and whose instances have no row. Adopted claims are left out: an import releases them,
// or an agent knows their instances.
func (c *comparing) withoutInstance(of *known, at time.Time) {
	rows := make(map[string]bool, len(of.by)+len(of.bad))
	for id := range of.by {
		rows[id.String()] = true
	}
	for _, b := range of.bad {
		rows[strings.ToLower(b.UUID)] = true
	}
	for _, host := range slices.Sorted(maps.Keys(c.on)) {
		for _, k := range c.on[host] {
			since := k.GetUpdatedAt().AsTime()
			if k.isReleased || k.GetAdopted() || k.GetTransferredFrom() != "" || rows[k.GetConsumerUuid()] ||
				k.GetState() != cellgatev1.ClaimState_CONFIRMED || at.Sub(since) < instanceWithin {
				continue
			}
			reported := "no report of its host has had its instance"
			if k.seen {
				reported = "a report of its host had its instance, which may run there still"
			}
			c.say(ClaimWithoutInstance, k.GetConsumerUuid(), k.GetServiceHost(), "claim %s has not changed since %s, and no row is of its instance; %s", k.GetClaimId(), since.UTC().Format(time.RFC3339), reported)
		}
	}
}

func usage(i *agentv1.Instance) string {
	var all []string
	for _, u := range i.GetUsages() {
		all = append(all, fmt.Sprintf("%s %d", u.GetResourceClass(), u.GetAmount()))
	}
	return strings.Join(all, ", ")
}

func eachClaim(ctx context.Context, c Cell, do func(*claim)) error {
	in := &cellv1.ListClaimsRequest{PageSize: listPage}
	for {
		out, err := c.ListClaims(ctx, in)
		if err != nil {
			return err
		}
		seen := out.GetInstanceSeen()
		for i, k := range out.GetClaims() {
			do(&claim{Claim: k, seen: i < len(seen) && seen[i]})
			in.After = k.GetClaimId()
		}
		if !out.GetMore() || len(out.GetClaims()) == 0 {
			return nil
		}
	}
}
