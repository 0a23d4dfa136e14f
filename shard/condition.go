package shard

import (
	"slices"
	"strings"
	"time"
)

// Condition is something that keeps new claims away from a host.
type Condition struct {
	Source ConditionSource
	State  ConditionState
	// Reason is for people, and may be empty. Until is zero for no end.
	Reason string
	Until  time.Time
}

// ConditionSource is who set a condition.
type ConditionSource string

// The sources. SourceAgent is the silence of the host's agent.
const (
	SourceOperator ConditionSource = "OPERATOR"
	SourceNova     ConditionSource = "NOVA"
	SourceAgent    ConditionSource = "AGENT"
)

// ConditionState is the kind of a condition, and a state that an operator or Nova's service gives a host. Every state
// but ConditionEnabled keeps new claims away. Claims that the host already has stay, and can be confirmed, moved away
// and released as usual.
type ConditionState string

// The states. With ConditionForcedDown and ConditionSilent the host also counts as down.
const (
	// ConditionEnabled is no condition: an operator's state alone.
	ConditionEnabled  ConditionState = "ENABLED"
	ConditionDisabled ConditionState = "DISABLED"
	// ConditionMaintenance is an operator's alone, and may have an end.
	ConditionMaintenance ConditionState = "MAINTENANCE"
	ConditionForcedDown  ConditionState = "FORCED_DOWN"
	// ConditionSilent: Nova's service or the agent has sent no heartbeat for too long.
	ConditionSilent ConditionState = "SILENT"
)

// Conditions gives those of a host's row: the operator's, then that of Nova's service, then the agent's. A
// maintenance is listed until its end is written. nil for none.
func (a *AdminState) Conditions() Conditions {
	if a == nil {
		return nil
	}
	var all Conditions
	if a.State != ConditionEnabled && a.State != "" {
		all = append(all, Condition{SourceOperator, a.State, a.Reason, a.Until})
	}
	if a.Nova != "" {
		all = append(all, Condition{Source: SourceNova, State: a.Nova, Reason: a.NovaReason})
	}
	if a.Silent {
		all = append(all, Condition{Source: SourceAgent, State: ConditionSilent})
	}
	return all
}

// Withholding gives the operator's conditions and Nova's. A replica that receives the agent's heartbeats knows better
// than the row whether the agent is silent.
func (a *AdminState) Withholding() Conditions {
	return a.Conditions().From(SourceOperator, SourceNova)
}

// LeftOut reports whether a replica that knows only the row leaves the host out of proposals.
func (a *AdminState) LeftOut() bool { return len(a.Conditions()) > 0 }

// Conditions are those of one host.
type Conditions []Condition

// From gives the conditions of some sources.
func (c Conditions) From(sources ...ConditionSource) Conditions {
	if len(c) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c), func(c Condition) bool { return !slices.Contains(sources, c.Source) })
}

// Down reports whether the host counts as down.
func (c Conditions) Down() bool {
	return slices.ContainsFunc(c, func(c Condition) bool { return c.State == ConditionForcedDown || c.State == ConditionSilent })
}

// Intended reports whether an operator or Nova keeps new claims away on purpose; silence is not intended.
func (c Conditions) Intended() bool {
	return slices.ContainsFunc(c, func(c Condition) bool { return c.State != ConditionSilent })
}

// Text says why new claims are kept from the host, in the text that reject counts use; "" for no condition.
func (c Conditions) Text() string {
	all := make([]string, len(c))
	for i := range c {
		all[i] = c[i].text()
	}
	return strings.Join(all, "; ")
}

func (c *Condition) text() string {
	by := " by operator"
	if c.Source == SourceNova {
		by = " in Nova"
	}
	what := ""
	switch {
	case c.State == ConditionSilent && c.Source == SourceNova:
		what = "its nova-compute is down"
	case c.State == ConditionSilent:
		what = "its agent is silent"
	case c.State == ConditionMaintenance:
		what = "in maintenance"
	case c.State == ConditionForcedDown:
		what = "forced down" + by
	default:
		what = "disabled" + by
	}
	if c.Reason == "" {
		return what
	}
	return what + ": " + c.Reason
}
