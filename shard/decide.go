package shard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cellgate/internal/fault"
	"cellgate/schedule/hardware"
)

// Result is the result of a batch.
type Result struct {
	// Outcomes has one for each operation, in order.
	Outcomes []Outcome
	// Changes has the final row of everything that changed, once each, in the
	// order of the first change.
	Changes []Change
}

// Decide runs the operations in order on the view: each sees what those before it changed. A refused operation
// changes nothing. now is store time.
//
// It is deterministic: equal rows, operations and time give an equal result.
func Decide(now time.Time, v *View, ops []Op) Result {
	t := &transaction{now: now.Round(0).UTC(), view: v, seen: make(map[rowKey]struct{}, 2*len(ops)), touched: make([]rowKey, 0, 2*len(ops))}
	d := Result{Outcomes: make([]Outcome, len(ops))}
	for i := range ops {
		d.Outcomes[i] = t.decideOp(&ops[i])
	}
	if len(t.touched) > 0 {
		d.Changes = make([]Change, len(t.touched))
		for i, k := range t.touched {
			d.Changes[i] = t.changeOf(k)
		}
	}
	return d
}

// transaction is a batch being decided.
type transaction struct {
	now     time.Time
	view    *View
	touched []rowKey
	seen    map[rowKey]struct{}
	// reported is the free hardware that hosts reported, for the hosts read so far.
	reported map[*Host]hardware.Host
}

type rowKind uint8

const (
	hostRow rowKind = iota
	usageRow
	claimRow
	pinRow
	gateRow
	namespaceRow
	adminRow
	nameRow
)

type rowKey struct {
	kind rowKind
	id   string
}

func (t *transaction) decideOp(op *Op) Outcome {
	set := 0
	for _, is := range [...]bool{
		op.PutHost != nil, op.Claim != nil, op.Confirm != nil, op.Release != nil,
		op.Expire != nil, op.Pin != nil, op.Unpin != nil, op.Swap != nil, op.Transfer != nil, op.TakeOver != nil, op.MoveGate != nil,
		op.PutFacts != nil, op.RecordVerdict != nil, op.Audit != nil, op.SetAdminState != nil, op.EndMaintenance != nil, op.SetNovaState != nil,
		op.SetSilent != nil, op.RemoveHost != nil, op.WritePlacement != nil, op.PutName != nil, op.DeleteName != nil,
	} {
		if is {
			set++
		}
	}
	if set != 1 {
		return refused(fault.InvalidRequest, "op: has %d operations, must have exactly one", set)
	}
	switch {
	case op.PutHost != nil:
		return valid(t, op.PutHost, (*transaction).putHost)
	case op.Claim != nil:
		return valid(t, op.Claim, (*transaction).makeClaim)
	case op.Confirm != nil:
		return valid(t, op.Confirm, (*transaction).confirm)
	case op.Release != nil:
		return valid(t, op.Release, (*transaction).release)
	case op.Expire != nil:
		return valid(t, op.Expire, (*transaction).expire)
	case op.Pin != nil:
		return valid(t, op.Pin, (*transaction).pinGroup)
	case op.Swap != nil:
		return valid(t, op.Swap, (*transaction).swap)
	case op.Transfer != nil:
		return valid(t, op.Transfer, (*transaction).transfer)
	case op.TakeOver != nil:
		return valid(t, op.TakeOver, (*transaction).takeOver)
	case op.MoveGate != nil:
		return valid(t, op.MoveGate, (*transaction).moveGate)
	case op.PutFacts != nil:
		return t.putFacts(op.PutFacts)
	case op.RecordVerdict != nil:
		return valid(t, op.RecordVerdict, (*transaction).recordVerdict)
	case op.Audit != nil:
		return valid(t, op.Audit, (*transaction).audit)
	case op.SetAdminState != nil:
		return t.setAdminState(op.SetAdminState)
	case op.SetNovaState != nil:
		return valid(t, op.SetNovaState, (*transaction).setNovaState)
	case op.SetSilent != nil:
		return valid(t, op.SetSilent, (*transaction).setSilent)
	case op.EndMaintenance != nil:
		return valid(t, op.EndMaintenance, (*transaction).endMaintenance)
	case op.RemoveHost != nil:
		return valid(t, op.RemoveHost, (*transaction).removeHost)
	case op.WritePlacement != nil:
		return valid(t, op.WritePlacement, (*transaction).writePlacement)
	case op.PutName != nil:
		return valid(t, op.PutName, (*transaction).putName)
	case op.DeleteName != nil:
		return valid(t, op.DeleteName, (*transaction).deleteName)
	default:
		return valid(t, op.Unpin, (*transaction).unpinGroup)
	}
}

// valid runs an operation, or refuses it if it has a problem.
func valid[T interface{ problem() string }](t *transaction, op T, run func(*transaction, T) Outcome) Outcome {
	if r := op.problem(); r != "" {
		return refused(fault.InvalidRequest, "%s", r)
	}
	return run(t, op)
}

// nextWriteTime is the UpdatedAt of the next row of a claim: now, but at least a microsecond later than the old
// row's. Every backend keeps microseconds.
func (t *transaction) nextWriteTime(c *Claim) time.Time {
	if next := c.UpdatedAt.Add(time.Microsecond); t.now.Before(next) {
		return next
	}
	return t.now
}

func refused(kind fault.Kind, format string, args ...any) Outcome {
	return Outcome{Refusal: &Refusal{Kind: kind, Message: fmt.Sprintf(format, args...)}}
}

// refusedFor refuses an operation because of a claim, which the outcome has.
func refusedFor(c *Claim, kind fault.Kind, format string, args ...any) Outcome {
	o := refused(kind, format, args...)
	o.Claim = c
	return o
}

func (t *transaction) touch(kind rowKind, id string) {
	k := rowKey{kind, id}
	if _, ok := t.seen[k]; !ok {
		t.seen[k] = struct{}{}
		t.touched = append(t.touched, k)
	}
}

func (t *transaction) changeOf(k rowKey) Change {
	switch k.kind {
	case hostRow:
		return Change{Host: t.view.Hosts[k.id]}
	case usageRow:
		return Change{Usage: t.view.Usages[k.id]}
	case claimRow:
		return Change{Claim: t.view.Claims[k.id]}
	case gateRow:
		return Change{Gate: t.view.Gate}
	case namespaceRow:
		host, name, _ := strings.Cut(k.id, " ")
		return Change{Namespace: t.view.Namespaces[host][name]}
	case nameRow:
		kind, name, _ := strings.Cut(k.id, " ")
		ref := NameRef{NameKind(kind), name}
		return Change{Name: &CustomName{NameRef: ref, Gone: !t.view.Names[ref]}}
	case adminRow:
		return Change{AdminState: t.view.AdminStates[k.id]}
	default:
		if p := t.view.Pins[k.id]; p != nil {
			return Change{Pin: p}
		}
		return Change{Pin: &Pin{GroupUUID: k.id}}
	}
}

// putClaim writes a claim's row and updates the indexes of live claims. A claim that takes no hardware
// (TakesHardware) has nothing assigned (Guest.Assigned).
func (t *transaction) putClaim(c *Claim) {
	if c.Guest != nil && c.Guest.Assigned != nil && !c.TakesHardware() {
		*c = *c.assigned(nil)
	}
	v := t.view
	if old := v.Claims[c.ClaimID]; old != nil && old.State.Live() {
		removeFromIndex(v.LiveByConsumer, old.ConsumerUUID, old.ClaimID)
		if old.TransferredFrom != "" {
			removeFromIndex(v.TransferredFrom, old.TransferredFrom, old.ClaimID)
		}
		removeFromIndex(v.LiveByHost, old.HostUUID, old.ClaimID)
		if old.Group != nil {
			removeFromIndex(v.LiveByGroup, old.Group.UUID, old.ClaimID)
		}
	}
	v.Claims[c.ClaimID] = c
	if c.State.Live() {
		addToIndex(v.LiveByConsumer, c.ConsumerUUID, c.ClaimID)
		if c.TransferredFrom != "" {
			addToIndex(v.TransferredFrom, c.TransferredFrom, c.ClaimID)
		}
		addToIndex(v.LiveByHost, c.HostUUID, c.ClaimID)
		if c.Group != nil {
			addToIndex(v.LiveByGroup, c.Group.UUID, c.ClaimID)
		}
	}
	t.touch(claimRow, c.ClaimID)
}

func addToIndex(index map[string][]string, key, id string) {
	index[key] = append(slices.Clip(index[key]), id)
}

func removeFromIndex(index map[string][]string, key, id string) {
	left := slices.DeleteFunc(slices.Clone(index[key]), func(s string) bool { return s == id })
	if len(left) == 0 {
		delete(index, key)
		return
	}
	index[key] = left
}

// nextGeneration is the number of the next write to a host's rows.
func (t *transaction) nextGeneration(host string) int64 {
	var g int64
	if h := t.view.Hosts[host]; h != nil {
		g = h.Generation
	}
	if u := t.view.Usages[host]; u != nil {
		g = max(g, u.Generation)
	}
	return g + 1
}
