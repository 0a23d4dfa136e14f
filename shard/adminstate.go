package shard

import (
	"cmp"
	"fmt"
	"time"
	"unicode/utf8"

	"cellgate/internal/fault"
)

// AdminState is the operator's state of a host and, while a gateway reads Nova's services, also Nova's. It is a row
// beside the host's row; reports of agents and imports do not change it. A host without a row is ConditionEnabled. Either
// state may keep new claims away. The row also records whether the host's agent is silent. Rows are never dropped,
// also not when the host is enabled again.
type AdminState struct {
	HostUUID string
	// State is the operator's.
	State ConditionState
	// Reason is for people. By names who set State.
	Reason string
	By     string
	// Since is when State began, zero while neither an operator nor Nova has set a state.
	// Until is when ConditionMaintenance ends, zero for no set end. Store time.
	Since time.Time
	Until time.Time
	// Nova is the newest state of the host's service in Nova; empty when the service accepts instances. NovaReason is
	// the reason of ConditionDisabled and ConditionForcedDown.
	Nova       ConditionState
	NovaReason string
	// NovaAt is when Nova wrote the newest state that was read: see SetNovaState.At. Zero: not known.
	NovaAt time.Time
	// Silent: a replica counted the host as down because its agent was silent, and no replica has received a
	// heartbeat since. Replicas that start read it. Replicas that receive heartbeats know better, so the rules of
	// claims do not read it.
	Silent bool
	// Generation is the host's generation after this write; the higher one is newer.
	Generation int64
}

// MaxAdminText bounds the characters of a reason and of By. MaxMaintenance is how long a maintenance with an end may
// last.
const (
	MaxAdminText   = 255
	MaxMaintenance = 366 * 24 * time.Hour
)

// SetAdminState replaces a host's AdminState. If the host does not exist, it is refused: NOT_FOUND. A state equal to
// the stored one is not written, unless AsOf is set.
type SetAdminState struct {
	HostUUID string
	// State is any but ConditionSilent.
	State ConditionState
	// Reason must not be empty, except with ConditionEnabled.
	Reason string
	By     string
	// Until or For is the end of ConditionMaintenance, in the future and at most MaxMaintenance away; For counts from
	// now. Both zero: no end.
	Until time.Time
	For   time.Duration
	// EndsNova: what Nova's service and tables (Host.Nova) report of the host is dropped too. Else it stays.
	EndsNova bool
	// AsOf, unless 0, is the generation of the host that the caller read: if the row is newer, the operation is
	// refused, STALE_GENERATION. With AsOf an equal state is written too, with a new generation, so that later
	// operations with an older AsOf are refused.
	AsOf int64
}

// SetNovaState replaces the state of Nova's service of a host, and leaves the operator's state. If the host does not
// exist, it is refused: NOT_FOUND. A state equal to the stored one, or of an older reading, is not written: two
// gateways may read two replicas of one database.
type SetNovaState struct {
	HostUUID string
	// State is empty when Nova's service accepts instances.
	State  ConditionState
	Reason string
	// At is when Nova wrote the row that the state was read from. Zero: not known; such a reading is never outdated.
	At time.Time
}

// maxNovaAhead is how far AdminState.NovaAt may be ahead of the store's time. A later NovaAt comes from a clock that
// was wrong, and outdates no reading.
const maxNovaAhead = time.Minute

// Outdated reports whether the operation comes from an older reading than the row, at a moment of store time.
func (p *SetNovaState) Outdated(by *AdminState, now time.Time) bool {
	return !p.At.IsZero() && p.At.Before(by.NovaRead(now))
}

// NovaRead is NovaAt, or zero if NovaAt does not count at that moment of store time (maxNovaAhead).
func (a *AdminState) NovaRead(now time.Time) time.Time {
	if a == nil || a.NovaAt.After(now.Add(maxNovaAhead)) {
		return time.Time{}
	}
	return a.NovaAt
}

// isRecorded reports whether a row has the operation's state already.
func (p *SetNovaState) isRecorded(old *AdminState) bool {
	if old == nil {
		return p.State == ""
	}
	return old.Nova == p.State && old.NovaReason == p.Reason
}

// SetSilent records whether a host's agent is silent (AdminState.Silent), and leaves the other states. If the host
// does not exist, it is refused: NOT_FOUND. An equal value is not written, nor is Silent for an imported host.
type SetSilent struct {
	HostUUID string
	Silent   bool
}

// EndMaintenance makes a host ConditionEnabled if its maintenance is over in store time, and does nothing otherwise.
type EndMaintenance struct {
	HostUUID string
}

// Withholds reports whether new claims are kept from the host at a moment of store time. A maintenance that is over
// withholds nothing, even while readers still see its row.
func (a *AdminState) Withholds(now time.Time) bool {
	return a != nil && (a.Nova != "" || a.State != ConditionEnabled && !a.maintenanceEnded(now))
}

// IsSilent is Silent; false for nil.
func (a *AdminState) IsSilent() bool { return a != nil && a.Silent }

func (a *AdminState) maintenanceEnded(now time.Time) bool {
	return a.State == ConditionMaintenance && !a.Until.IsZero() && !now.Before(a.Until)
}

func (t *transaction) setAdminState(p *SetAdminState) Outcome {
	until, problem := p.read(t.now)
	if problem != "" {
		return refused(fault.InvalidRequest, "%s", problem)
	}
	h := t.view.Hosts[p.HostUUID]
	if h == nil {
		return noHost(p.HostUUID)
	}
	old := t.view.AdminStates[p.HostUUID]
	if p.AsOf != 0 && old != nil && old.Generation > p.AsOf {
		return t.refuseOvertaken(p.HostUUID, "what operators want of host "+p.HostUUID, old.Generation, p.AsOf)
	}
	if p.EndsNova {
		if followed := t.followNova(h, NovaHost{}); followed != h {
			t.reassign(followed)
		}
	}
	if old == nil && p.State == ConditionEnabled && p.AsOf == 0 {
		return Outcome{}
	}
	n := t.adminStateOf(p.HostUUID)
	n.State, n.Reason, n.Until = p.State, p.Reason, until
	if p.EndsNova {
		n.Nova, n.NovaReason, n.NovaAt = "", "", time.Time{}
	}
	same := old != nil && n.State == old.State && n.Reason == old.Reason && n.Until.Equal(old.Until) && n.Nova == old.Nova && n.NovaAt.Equal(old.NovaAt) &&
		(p.By == old.By || p.State == ConditionEnabled)
	if same && p.AsOf == 0 {
		return Outcome{AdminState: old}
	}
	if !same {
		n.By = p.By
		if old == nil || old.State != p.State || old.Since.IsZero() {
			n.Since = t.now
		}
	}
	return Outcome{AdminState: t.putAdminState(n)}
}

// noHost refuses an operation on a host that does not exist.
func noHost(uuid string) Outcome { return refused(fault.NotFound, "host %s is not in this cell", uuid) }

// refuseOvertaken refuses an operation whose AsOf is older than the row's generation.
func (t *transaction) refuseOvertaken(host, what string, is, asOf int64) Outcome {
	o := refused(fault.StaleGeneration, "%s is of generation %d, after %d", what, is, asOf)
	o.Newest = t.nextGeneration(host) - 1
	return o
}

func (t *transaction) setNovaState(p *SetNovaState) Outcome {
	if t.view.Hosts[p.HostUUID] == nil {
		return noHost(p.HostUUID)
	}
	old := t.view.AdminStates[p.HostUUID]
	if p.isRecorded(old) || p.Outdated(old, t.now) {
		return Outcome{AdminState: old}
	}
	n := t.adminStateOf(p.HostUUID)
	if n.Since.IsZero() {
		n.Since = t.now
	}
	n.Nova, n.NovaReason, n.NovaAt = p.State, p.Reason, p.At
	return Outcome{AdminState: t.putAdminState(n)}
}

func (t *transaction) setSilent(p *SetSilent) Outcome {
	h := t.view.Hosts[p.HostUUID]
	if h == nil {
		return noHost(p.HostUUID)
	}
	old := t.view.AdminStates[p.HostUUID]
	if p.Silent == old.IsSilent() || p.Silent && h.Imported {
		return Outcome{AdminState: old}
	}
	n := t.adminStateOf(p.HostUUID)
	n.Silent = p.Silent
	return Outcome{AdminState: t.putAdminState(n)}
}

// adminStateOf gives a copy of a host's row, or a new enabled one if the host has none.
func (t *transaction) adminStateOf(host string) *AdminState {
	if old := t.view.AdminStates[host]; old != nil {
		n := *old
		return &n
	}
	return &AdminState{HostUUID: host, State: ConditionEnabled}
}

func (t *transaction) endMaintenance(p *EndMaintenance) Outcome {
	old := t.view.AdminStates[p.HostUUID]
	if old == nil || !old.maintenanceEnded(t.now) {
		return Outcome{AdminState: old}
	}
	n := t.adminStateOf(p.HostUUID)
	n.State, n.Since, n.Until = ConditionEnabled, old.Until, time.Time{}
	return Outcome{AdminState: t.putAdminState(n)}
}

// putAdminState writes a row. The host's usage is written with it (touchUsage).
func (t *transaction) putAdminState(n *AdminState) *AdminState {
	n.Generation = t.nextGeneration(n.HostUUID)
	t.view.AdminStates[n.HostUUID] = n
	t.touch(adminRow, n.HostUUID)
	t.touchUsage(n.HostUUID, n.Generation)
	return n
}

// touchUsage writes a host's usage with the generation of a row beside it. All writers of the host wait for the usage
// row, so the host's generations stay in one order.
func (t *transaction) touchUsage(host string, generation int64) {
	u := Usage{HostUUID: host}
	if known := t.view.Usages[host]; known != nil {
		u = *known
	}
	u.Generation = generation
	t.view.Usages[host] = &u
	t.touch(usageRow, host)
}

func (p *SetSilent) problem() string      { return idsProblem("host_uuid", p.HostUUID) }
func (p *EndMaintenance) problem() string { return idsProblem("host_uuid", p.HostUUID) }

func (p *SetNovaState) problem() string {
	switch p.State {
	case ConditionDisabled, ConditionForcedDown:
	case "", ConditionSilent:
		if p.Reason != "" {
			return fmt.Sprintf("reason: only %s and %s have one", ConditionDisabled, ConditionForcedDown)
		}
	default:
		return fmt.Sprintf("state: is %q, must be empty or one of %s, %s, %s", p.State, ConditionDisabled, ConditionForcedDown, ConditionSilent)
	}
	return cmp.Or(idsProblem("host_uuid", p.HostUUID), shortTextProblem("reason", p.Reason))
}

// shortTextProblem says what is wrong with a reason, or with a name of who set a state; "" for nothing.
func shortTextProblem(path, text string) string {
	if utf8.RuneCountInString(text) > MaxAdminText {
		return fmt.Sprintf("%s: must have at most %d characters", path, MaxAdminText)
	}
	return textProblem(path, text)
}

// read gives the end of a maintenance, zero for none, or what is wrong with the operation.
func (p *SetAdminState) read(now time.Time) (until time.Time, problem string) {
	if problem = cmp.Or(idsProblem("host_uuid", p.HostUUID), shortTextProblem("reason", p.Reason), shortTextProblem("by", p.By)); problem != "" {
		return until, problem
	}
	if p.AsOf < 0 {
		return until, "as_of_generation: must not be below 0"
	}
	ends := !p.Until.IsZero() || p.For != 0
	switch p.State {
	case ConditionEnabled, ConditionDisabled, ConditionMaintenance, ConditionForcedDown:
	default:
		return until, fmt.Sprintf("admin_state: is %q, must be one of %s, %s, %s, %s", p.State, ConditionEnabled, ConditionDisabled, ConditionMaintenance, ConditionForcedDown)
	}
	switch {
	case p.State != ConditionEnabled && p.Reason == "":
		return until, "reason: must say why: whoever finds the host so asks"
	case ends && p.State != ConditionMaintenance:
		return until, fmt.Sprintf("until: only a maintenance has an end, not %s", p.State)
	case !p.Until.IsZero() && p.For != 0:
		return until, "until: must not be set beside lasts"
	case !ends:
		return until, ""
	case p.For < 0 || p.For > MaxMaintenance:
		return until, fmt.Sprintf("lasts: is %v, must be above 0 and at most %v", p.For, MaxMaintenance)
	}
	if until = p.Until; p.For > 0 {
		until = now.Add(p.For)
	}
	// Every backend keeps microseconds.
	until = until.Round(0).UTC().Truncate(time.Microsecond)
	if !until.After(now) || until.Sub(now) > MaxMaintenance {
		return until, fmt.Sprintf("until: is %s, must come, and at most %v after the cell's time, %s", until.Format(time.RFC3339), MaxMaintenance, now.Format(time.RFC3339))
	}
	return until, ""
}
