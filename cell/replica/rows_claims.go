package replica

import (
	"slices"

	"cellgate/shard"
)

func (r *Rows) applyClaim(c *shard.Claim, d *dirty) {
	old := r.claims[c.ClaimID]
	if older(c, old) || older(c, r.ended[c.ClaimID]) || older(c, r.endedBefore[c.ClaimID]) {
		return
	}
	if old != nil {
		drop(r.byConsumer, old.ConsumerUUID, old.ClaimID)
		drop(r.transferred, old.TransferredFrom, old.ClaimID)
		if !c.State.Live() || c.HostUUID != old.HostUUID {
			delete(r.onHost[old.HostUUID], old.ClaimID)
			if len(r.onHost[old.HostUUID]) == 0 {
				delete(r.onHost, old.HostUUID)
			}
		}
	}
	if c.State.Live() {
		r.claims[c.ClaimID] = c
		if r.onHost[c.HostUUID] == nil {
			r.onHost[c.HostUUID] = map[string]*shard.Claim{}
		}
		r.onHost[c.HostUUID][c.ClaimID] = c
		r.byConsumer[c.ConsumerUUID] = append(r.byConsumer[c.ConsumerUUID], c)
		if c.TransferredFrom != "" {
			r.transferred[c.TransferredFrom] = append(r.transferred[c.TransferredFrom], c)
		}
		delete(r.ended, c.ClaimID)
		delete(r.endedBefore, c.ClaimID)
	} else {
		delete(r.claims, c.ClaimID)
		r.ended[c.ClaimID] = c
	}
	for _, is := range [...]*shard.Claim{old, c} {
		if is != nil && is.TakesHardware() {
			d.hardware[is.HostUUID] = struct{}{}
		}
	}
	if old == nil && c.State.Live() || old != nil && (!c.State.Live() || old.HostUUID != c.HostUUID) {
		d.instances[c.Instance()] = struct{}{}
	}
}

// older reports whether a claim's row is older than the known one. Rows with the same time are ordered
// by state, pending first, so that a coarse clock does not bring an old row back.
func older(c, known *shard.Claim) bool {
	if known == nil {
		return false
	}
	if c.UpdatedAt.Equal(known.UpdatedAt) {
		return age(c.State) < age(known.State)
	}
	return c.UpdatedAt.Before(known.UpdatedAt)
}

func age(s shard.ClaimState) int {
	return slices.Index([]shard.ClaimState{shard.Pending, shard.Expired, shard.Confirmed, shard.Released, shard.Rejected}, s)
}

func drop(index map[string][]*shard.Claim, key, id string) {
	list, ok := index[key]
	if !ok {
		return
	}
	left := slices.DeleteFunc(slices.Clone(list), func(x *shard.Claim) bool { return x.ClaimID == id })
	if len(left) == 0 {
		delete(index, key)
		return
	}
	index[key] = left
}
