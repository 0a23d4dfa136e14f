package shard

import (
	"fmt"
	"time"
	"unicode/utf8"

	"cellgate/internal/fault"
)

// AdminState is the operator's state of a host and, while a gateway reads Nova's services, also Nova's. It is a row
// beside the host's row; reports of agents and imports do not change it. A host without a row is AdminEnabled. Either
// state may keep new claims away. The row also records whether the host's agent is silent. Rows are never dropped,
// also not when the host is enabled again.
type AdminState struct {
	HostUUID string
	State    Admin
	// Reason is for people. By names who set State.
	Reason string
	By     string
	// Since is when State began, zero while neither an operator nor Nova has set a state.
	// Until is when AdminMaintenance ends, zero for no set end. Store time.
	Since time.Time
	Until time.Time
	// Nova is the newest state of the host's service in Nova; empty when the service accepts instances. NovaReason is
	// the reason of NovaDisabled and NovaForcedDown.
	Nova       NovaState
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

// Admin is what an operator wants of a host.
type Admin string

// The administrative states. All but AdminEnabled keep new claims away. Claims that the host already has stay, and
// can be confirmed, moved away and released as usual.
const (
	AdminEnabled     Admin = "ENABLED"
	AdminDisabled    Admin = "DISABLED"
	AdminMaintenance Admin = "MAINTENANCE"
	// AdminForcedDown: the host counts as down, whatever its agent sends.
	AdminForcedDown Admin = "FORCED_DOWN"
)

// NovaState is a state of the host's service in Nova that keeps new claims away.
type NovaState string

// The states of Nova's service. Each keeps new claims away. With NovaForcedDown and NovaSilent the host also counts
// as down.
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

// SetAdminState replaces a host's AdminState. If the host does not exist, it is refused: NOT_FOUND. A state equal to
// the stored one is not written, unless AsOf is set.
type SetAdminState struct {
	HostUUID string
	State    Admin
	// Reason must not be empty, except with AdminEnabled.
	Reason string
	By     string
	// Until or For is the end of AdminMaintenance, in the future and at most MaxMaintenance away; For counts from
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
	State  NovaState
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

// EndMaintenance makes a host AdminEnabled if its maintenance is over in store time, and does nothing otherwise.
type EndMaintenance struct {
	HostUUID string
}

// Withholds reports whether new claims are kept from the host at a moment of store time. A maintenance that is over
// withholds nothing, even while readers still see its row.
func (a *AdminState) Withholds(now time.Time) bool {
	return a != nil && (a.Nova != "" || a.State != AdminEnabled && !a.maintenanceEnded(now))
}

// IsSilent is Silent; false for nil.
func (a *AdminState) IsSilent() bool { return a != nil && a.Silent }

func (a *AdminState) maintenanceEnded(now time.Time) bool {
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
			if h := t.view.Hosts[p.HostUUID]; out.Refusal == nil && t.followNova(h, NovaHost{}) != h {
				t.reassign(t.view.Hosts[p.HostUUID])
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

// refuseOvertaken refuses an operation whose AsOf is older than the row's generation.
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

// adminStateOf gives a copy of a host's row, or a new enabled one if the host has none.
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
	if old == nil || !old.maintenanceEnded(t.now) {
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
	// Every backend keeps microseconds.
	until = until.Round(0).UTC().Truncate(time.Microsecond)
	if !until.After(now) || until.Sub(now) > MaxMaintenance {
		return until, fmt.Sprintf("until: is %s, must come, and at most %v after the cell's time, %s", until.Format(time.RFC3339), MaxMaintenance, now.Format(time.RFC3339))
	}
	return until, ""
}
