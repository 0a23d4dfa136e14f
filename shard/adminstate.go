package shard

import (
	"fmt"
	"time"
	"unicode/utf8"

	"cellgate/internal/fault"
)

// AdminState is an operator's state of a host and, while a gateway reads Nova's services,
// Nova's: a row beside the host's, which no report of an agent and no import touches. A host
// without a row is AdminEnabled. Either state may keep new claims away. The row also has
// whether the host's agent is silent. Rows are never dropped: an enabled host keeps its own.
type AdminState struct {
	HostUUID string
	State    Admin
	// Reason is for people, By names who set State.
	Reason string
	By     string
	// Since is when State began, zero while neither an operator nor Nova has set a state.
	// Until is when AdminMaintenance ends, zero for no set end. Store time.
	Since time.Time
	Until time.Time
	// Nova is the newest state of the host's service in Nova; empty when that takes
	// instances. NovaReason is that of NovaDisabled and NovaForcedDown.
	Nova       NovaState
	NovaReason string
	// NovaAt is the time of the newest reading that has Nova: see SetNovaState.At. Zero: not
	// known.
	NovaAt time.Time
	// Silent: a replica counted the host as down because its agent was silent, and none has
	// received a heartbeat since. It is for replicas that start: those that receive heartbeats
	// know better, so the rules of claims do not read it.
	Silent bool
	// Generation is the host's after the write; the higher one is newer.
	Generation int64
}

// Admin is what an operator wants of a host.
type Admin string

// The administrative states. All but AdminEnabled keep new claims away; those there are
// stay, and are confirmed, moved away and released as ever.
const (
	AdminEnabled     Admin = "ENABLED"
	AdminDisabled    Admin = "DISABLED"
	AdminMaintenance Admin = "MAINTENANCE"
	// AdminForcedDown: the host counts as down, whatever its agent sends.
	AdminForcedDown Admin = "FORCED_DOWN"
)

// NovaState is what Nova's service of a host says against it.
type NovaState string

// The states of a service that keep new claims away, as AdminState does. The host counts as
// down with the last two.
const (
	NovaDisabled   NovaState = "DISABLED"
	NovaForcedDown NovaState = "FORCED_DOWN"
	// NovaSilent: the service has not written its heartbeat for too long.
	NovaSilent NovaState = "SILENT"
)

// MaxAdminReason and MaxAdminBy bound the characters of those texts. MaxMaintenance is how
// long a maintenance with an end may last.
const (
	MaxAdminReason = 255
	MaxAdminBy     = 255
	MaxMaintenance = 366 * 24 * time.Hour
)

// SetAdminState replaces a host's AdminState. The host must be there: NOT_FOUND. What
// says the same is not written, unless AsOf is set.
type SetAdminState struct {
	HostUUID string
	State    Admin
	// Reason must not be empty, but with AdminEnabled.
	Reason string
	By     string
	// Until or For, with AdminMaintenance, is its end, which must come and is at most
	// MaxMaintenance away; For counts from now on. Both zero: it has none.
	Until time.Time
	For   time.Duration
	// EndsNova: the states of Nova's service and tables (Host.Nova) end too. Else they stay.
	EndsNova bool
	// AsOf, unless 0, is the generation of the host that the caller read: if the row is newer,
	// the operation is refused, STALE_GENERATION. With AsOf the same state is written too, with
	// a new generation, so that an older operation is refused afterwards.
	AsOf int64
}

// SetNovaState replaces what Nova's service says of a host, and leaves the operator's state.
// The host must be there: NOT_FOUND. What says the same is not written, nor
// what an older reading says: two gateways may read two replicas of one database.
type SetNovaState struct {
	HostUUID string
	// State is empty when nothing speaks against the host.
	State  NovaState
	Reason string
	// At is when Nova wrote what says so, as it was read. Zero: not known, and older than none.
	At time.Time
}

// maxNovaAhead is how far AdminState.NovaAt may be ahead of the store's time: a later one is
// of a clock that was wrong, and keeps no reading out.
const maxNovaAhead = time.Minute

// Outdated reports whether the operation is of an older reading than a row, at a moment of
// store time.
func (p *SetNovaState) Outdated(by *AdminState, now time.Time) bool {
	return !p.At.IsZero() && p.At.Before(by.NovaRead(now))
}

// NovaRead is NovaAt where it counts at a moment of store time, else zero.
func (a *AdminState) NovaRead(now time.Time) time.Time {
	if a == nil || a.NovaAt.After(now.Add(maxNovaAhead)) {
		return time.Time{}
	}
	return a.NovaAt
}

// says reports whether a row has the operation's state already.
func (p *SetNovaState) says(old *AdminState) bool {
	if old == nil {
		return p.State == ""
	}
	return old.Nova == p.State && old.NovaReason == p.Reason
}

// SetSilent notes whether a host's agent is silent (AdminState.Silent), and leaves the other
// states. The host must be there: NOT_FOUND. The same again, and the silence of a host that no
// agent speaks for, are not written.
type SetSilent struct {
	HostUUID string
	Silent   bool
}

// EndMaintenance makes a host AdminEnabled whose maintenance is over in store time, and
// does nothing to any other.
type EndMaintenance struct {
	HostUUID string
}

// Withholds reports whether new claims are kept from the host at a moment of store time.
// What readers of the row show until the end was written may be later than that.
func (a *AdminState) Withholds(now time.Time) bool {
	return a != nil && (a.Nova != "" || a.State != AdminEnabled && !a.over(now))
}

// IsSilent is Silent; false for nil.
func (a *AdminState) IsSilent() bool { return a != nil && a.Silent }

// over reports whether a maintenance has ended.
func (a *AdminState) over(now time.Time) bool {
	return a.State == AdminMaintenance && !a.Until.IsZero() && !now.Before(a.Until)
}

func (t *transaction) setAdminState(p *SetAdminState) (out Outcome) {
	until, problem := p.read(t.now)
	if problem != "" {
		return refused(fault.InvalidRequest, "%s", problem)
	}
	if t.view.Hosts[p.HostUUID] == nil {
		return refused(fault.NotFound, "host %s is not in this cell", p.HostUUID)
	}
	old := t.view.AdminStates[p.HostUUID]
	if p.EndsNova {
		defer func() {
			if out.Refusal == nil {
				t.followNova(t.view.Hosts[p.HostUUID], NovaHost{})
			}
		}()
	}
	if p.AsOf != 0 && old != nil && old.Generation > p.AsOf {
		return t.refuseOvertaken(p.HostUUID, "what operators want of host "+p.HostUUID, old.Generation, p.AsOf)
	}
	if old == nil && p.State == AdminEnabled && p.AsOf == 0 {
		return Outcome{}
	}
	ends := p.EndsNova && old != nil && (old.Nova != "" || !old.NovaAt.IsZero())
	if old != nil && !ends && old.State == p.State && old.Reason == p.Reason && old.Until.Equal(until) && (old.By == p.By || p.State == AdminEnabled) {
		if p.AsOf == 0 {
			return Outcome{AdminState: old}
		}
		again := *old
		return Outcome{AdminState: t.putAdminState(&again)}
	}
	n := &AdminState{
		HostUUID: p.HostUUID, State: p.State, Reason: p.Reason, By: p.By, Since: t.now, Until: until,
	}
	if old != nil && old.State == p.State && !old.Since.IsZero() {
		n.Since = old.Since
	}
	if old != nil {
		n.Silent = old.Silent
	}
	if old != nil && !p.EndsNova {
		n.Nova, n.NovaReason, n.NovaAt = old.Nova, old.NovaReason, old.NovaAt
	}
	return Outcome{AdminState: t.putAdminState(n)}
}

// refuseOvertaken refuses an operation over a generation of a host that is older than the row.
func (t *transaction) refuseOvertaken(host, what string, is, asOf int64) Outcome {
	o := refused(fault.StaleGeneration, "%s is of generation %d, after %d", what, is, asOf)
	o.Newest = t.nextGeneration(host) - 1
	return o
}

func (t *transaction) setNovaState(p *SetNovaState) Outcome {
	if problem := p.problem(); problem != "" {
		return refused(fault.InvalidRequest, "%s", problem)
	}
	if t.view.Hosts[p.HostUUID] == nil {
		return refused(fault.NotFound, "host %s is not in this cell", p.HostUUID)
	}
	old := t.view.AdminStates[p.HostUUID]
	if p.says(old) || p.Outdated(old, t.now) {
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
	if !isID(p.HostUUID) {
		return refused(fault.InvalidRequest, "%s", "host_uuid: "+idRule)
	}
	h := t.view.Hosts[p.HostUUID]
	if h == nil {
		return refused(fault.NotFound, "host %s is not in this cell", p.HostUUID)
	}
	old := t.view.AdminStates[p.HostUUID]
	if p.Silent == old.IsSilent() || p.Silent && h.Imported {
		return Outcome{AdminState: old}
	}
	n := t.adminStateOf(p.HostUUID)
	n.Silent = p.Silent
	return Outcome{AdminState: t.putAdminState(n)}
}

// adminStateOf gives a copy of a host's row, or of what it would be.
func (t *transaction) adminStateOf(host string) *AdminState {
	if old := t.view.AdminStates[host]; old != nil {
		n := *old
		return &n
	}
	return &AdminState{HostUUID: host, State: AdminEnabled}
}

func (t *transaction) endMaintenance(p *EndMaintenance) Outcome {
	if !isID(p.HostUUID) {
		return refused(fault.InvalidRequest, "%s", "host_uuid: "+idRule)
	}
	old := t.view.AdminStates[p.HostUUID]
	if old == nil || !old.over(t.now) {
		return Outcome{AdminState: old}
	}
	return Outcome{AdminState: t.putAdminState(&AdminState{
		HostUUID: p.HostUUID, State: AdminEnabled, Reason: old.Reason, By: old.By, Since: old.Until,
		Nova: old.Nova, NovaReason: old.NovaReason, NovaAt: old.NovaAt, Silent: old.Silent,
	})}
}

// putAdminState writes a row. The host's usage is written with it (touchUsage).
func (t *transaction) putAdminState(n *AdminState) *AdminState {
	n.Generation = t.nextGeneration(n.HostUUID)
	t.view.AdminStates[n.HostUUID] = n
	t.touch(adminRow, n.HostUUID)
	t.touchUsage(n.HostUUID, n.Generation)
	return n
}

// touchUsage writes a host's usage with the generation of a row beside it: whoever writes to
// the host waits for the usage, and the host's generations stay in one order.
func (t *transaction) touchUsage(host string, generation int64) {
	u := Usage{HostUUID: host}
	if known := t.view.Usages[host]; known != nil {
		u = *known
	}
	u.Generation = generation
	t.view.Usages[host] = &u
	t.touch(usageRow, host)
}

// problem says what is wrong with the operation; "" for nothing.
func (p *SetNovaState) problem() string {
	if !isID(p.HostUUID) {
		return "host_uuid: " + idRule
	}
	switch p.State {
	case NovaDisabled, NovaForcedDown:
	case "", NovaSilent:
		if p.Reason != "" {
			return fmt.Sprintf("reason: only %s and %s have one", NovaDisabled, NovaForcedDown)
		}
	default:
		return fmt.Sprintf("state: is %q, must be empty or one of %s, %s, %s", p.State, NovaDisabled, NovaForcedDown, NovaSilent)
	}
	if problem := textProblem("reason", p.Reason); problem != "" {
		return problem
	}
	if utf8.RuneCountInString(p.Reason) > MaxAdminReason {
		return fmt.Sprintf("reason: must have at most %d characters", MaxAdminReason)
	}
	return ""
}

// read gives the end of a maintenance, zero for none, or what is wrong with the operation.
func (p *SetAdminState) read(now time.Time) (until time.Time, problem string) {
	if !isID(p.HostUUID) {
		return until, "host_uuid: " + idRule
	}
	for _, text := range [...]struct {
		path, is string
		most     int
	}{{"reason", p.Reason, MaxAdminReason}, {"by", p.By, MaxAdminBy}} {
		if problem = textProblem(text.path, text.is); problem != "" {
			return until, problem
		}
		if utf8.RuneCountInString(text.is) > text.most {
			return until, fmt.Sprintf("%s: must have at most %d characters", text.path, text.most)
		}
	}
	if p.AsOf < 0 {
		return until, "as_of_generation: must not be below 0"
	}
	ends := !p.Until.IsZero() || p.For != 0
	switch p.State {
	case AdminEnabled, AdminDisabled, AdminMaintenance, AdminForcedDown:
	default:
		return until, fmt.Sprintf("admin_state: is %q, must be one of %s, %s, %s, %s", p.State, AdminEnabled, AdminDisabled, AdminMaintenance, AdminForcedDown)
	}
	switch {
	case p.State != AdminEnabled && p.Reason == "":
		return until, "reason: must say why: whoever finds the host so asks"
	case ends && p.State != AdminMaintenance:
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
	// What every backend can tell apart.
	until = until.Round(0).UTC().Truncate(time.Microsecond)
	if !until.After(now) || until.Sub(now) > MaxMaintenance {
		return until, fmt.Sprintf("until: is %s, must come, and at most %v after the cell's time, %s", until.Format(time.RFC3339), MaxMaintenance, now.Format(time.RFC3339))
	}
	return until, ""
}
