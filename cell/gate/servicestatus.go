package gate

import (
	"cmp"
	"slices"
	"time"

	"cellgate/shard"
)

// The status of Nova's services is kept in the shard beside the operator's condition, so that every
// replica has it and claims are checked against it. It is written when it changes, unless the shard's
// row is of a newer reading: gateways may read replicas of Nova's database that are behind. Without
// reports the status stays. A gateway that cannot read the tables reports no status.
//
// If the newest reading does not name an agent's host, the host counts as disabled: Nova has no such
// host, or has the machine, with its instances, under another uuid. A row that no gateway can answer
// from still names its host.

// UnknownToNova is the reason of a host that no report names. UnreadableToNova is the reason of a host
// that registered while no gateway could read the tables.
const (
	UnknownToNova    = "Nova's tables have no host of this uuid"
	UnreadableToNova = "Nova's tables cannot be read, and the cell did not know this uuid before"
)

// serviceStatus is the status that a service gives its host; the zero value withholds nothing.
type serviceStatus struct {
	State  shard.ConditionState
	Reason string
}

var unknownHost = serviceStatus{shard.ConditionDisabled, UnknownToNova}

// status returns what withholds the host from new claims. As in Nova's ComputeFilter, a host takes none
// if it is disabled or its nova-compute is down.
func (s *Service) status() serviceStatus {
	switch {
	case s.forcedDown:
		return serviceStatus{shard.ConditionForcedDown, s.reason}
	case s.disabled:
		return serviceStatus{shard.ConditionDisabled, s.reason}
	case !s.Up:
		return serviceStatus{State: shard.ConditionSilent}
	}
	return serviceStatus{}
}

// statusOrder has the states from best to worst.
var statusOrder = []shard.ConditionState{"", shard.ConditionSilent, shard.ConditionDisabled, shard.ConditionForcedDown}

// worse orders statuses by state, then by reason, since reports are unordered.
func (w serviceStatus) worse(than serviceStatus) bool {
	if c := cmp.Compare(slices.Index(statusOrder, w.State), slices.Index(statusOrder, than.State)); c != 0 {
		return c > 0
	}
	return w.Reason > than.Reason
}

// HostStatus is a host's row with its conditions; Row is nil while there is no host.
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

// StatusChanges returns the statuses that the rows lack, by host. They come from the newest of the
// given readings; of several equally new ones the worst counts. A service is silent unless a reading
// that is at most maxLag behind the newest has it up. If the rows' status is from a reading that is
// newer by more than maxLag, which a gateway reported to another replica, nothing changes.
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
		if status.State == shard.ConditionSilent && up[uuid] {
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
