package gate

import (
	"cmp"
	"slices"
	"time"

	"cellgate/shard"
)

// The status of Nova's services is kept in the shard beside the operator's condition, so that every
// replica has it, and claims are checked by it. It is written when it changes, unless the row in
// the shard is of a newer reading: gateways may read replicas of Nova's database that are behind.
// It stays while nobody reports; a gateway that cannot read says nothing.
//
// A host of an agent that the newest reading does not name counts as disabled: Nova has no such
// host, or has that machine under another uuid, with what runs there. A row that no gateway can
// answer from names its host all the same.

// UnknownToNova is the reason of a host that no report names, unreadable that of one that came
// while no gateway could read the tables.
const (
	UnknownToNova    = "Nova's tables have no host of this uuid"
	UnreadableToNova = "Nova's tables cannot be read, and the cell did not know this uuid before"
)

// serviceStatus is what a service says of its host; the zero value is nothing against it.
type serviceStatus struct {
	State  shard.NovaState
	Reason string
}

var unknownHost = serviceStatus{shard.NovaDisabled, UnknownToNova}

// status gives what keeps new claims away: as Nova's ComputeFilter, which takes no host that is
// disabled or whose nova-compute is down.
func (s *Service) status() serviceStatus {
	switch {
	case s.forcedDown:
		return serviceStatus{shard.NovaForcedDown, s.reason}
	case s.disabled:
		return serviceStatus{shard.NovaDisabled, s.reason}
	case !s.Up:
		return serviceStatus{State: shard.NovaSilent}
	}
	return serviceStatus{}
}

// statusOrder has the states from none to the worst.
var statusOrder = []shard.NovaState{"", shard.NovaSilent, shard.NovaDisabled, shard.NovaForcedDown}

// worse orders statuses; those that differ in the reason alone by that, as reports have no order.
func (w serviceStatus) worse(than serviceStatus) bool {
	if c := cmp.Compare(slices.Index(statusOrder, w.State), slices.Index(statusOrder, than.State)); c != 0 {
		return c > 0
	}
	return w.Reason > than.Reason
}

// HostStatus is a host's row with what stands beside it; Row is nil while there is no host.
type HostStatus struct {
	Row   *shard.Host
	Admin *shard.AdminState
}

func (r HostStatus) status() serviceStatus {
	if r.Admin == nil {
		return serviceStatus{}
	}
	return serviceStatus{r.Admin.Nova, r.Admin.NovaReason}
}

// StatusChanges gives the statuses that the rows do not have, by host, as the newest of some
// readings has them; of several as new the worst counts. A service is silent when no reading has it up that is less than maxLag behind
// the newest. While the rows have a status of a reading that is newer by more than maxLag, which a
// gateway reported to another replica, nothing changes.
func StatusChanges(reports []Report, rows map[string]HostStatus, now time.Time, maxLag time.Duration) (changes []shard.SetNovaState) {
	if len(reports) == 0 {
		return nil
	}
	newest := slices.MaxFunc(reports, func(a, b Report) int { return a.readTo.Compare(b.readTo) }).readTo
	at := earlier(newest, now)
	up, statuses := map[string]bool{}, map[string]serviceStatus{}
	for i := range reports {
		lag := newest.Sub(reports[i].readTo)
		for n := range reports[i].Services {
			s := &reports[i].Services[n]
			for _, uuid := range s.named() {
				up[uuid] = up[uuid] || s.Up && lag <= maxLag
				if of, is := statuses[uuid]; lag == 0 && (!is || s.status().worse(of)) {
					statuses[uuid] = s.status()
				}
			}
		}
	}
	for uuid, row := range rows {
		if !at.IsZero() && row.Admin.NovaRead(now).Sub(at) > maxLag {
			return nil
		}
		status, named := statuses[uuid]
		if status.State == shard.NovaSilent && up[uuid] {
			status = serviceStatus{}
		}
		switch {
		case row.Row == nil, !named && (row.Row.Imported || len(statuses) == 0):
			continue
		case !named:
			status = unknownHost
		}
		if p := (shard.SetNovaState{HostUUID: uuid, State: status.State, Reason: status.Reason, At: at}); row.status() != status && !p.Outdated(row.Admin, now) {
			changes = append(changes, p)
		}
	}
	slices.SortFunc(changes, func(a, b shard.SetNovaState) int { return cmp.Compare(a.HostUUID, b.HostUUID) })
	return changes
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
