package shard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cellgate/internal/fault"
	"cellgate/schedule"
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
	reported map[*Host]schedule.Hardware
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
		return t.putHost(op.PutHost)
	case op.Claim != nil:
		return t.makeClaim(op.Claim)
	case op.Confirm != nil:
		return t.confirm(op.Confirm)
	case op.Release != nil:
		return t.release(op.Release)
	case op.Expire != nil:
		return t.expire(op.Expire)
	case op.Pin != nil:
		return t.pinGroup(op.Pin)
	case op.Swap != nil:
		return t.swap(op.Swap)
	case op.Transfer != nil:
		return t.transfer(op.Transfer)
	case op.TakeOver != nil:
		return t.takeOver(op.TakeOver)
	case op.MoveGate != nil:
		return t.moveGate(op.MoveGate)
	case op.PutFacts != nil:
		return t.putFacts(op.PutFacts)
	case op.RecordVerdict != nil:
		return t.recordVerdict(op.RecordVerdict)
	case op.Audit != nil:
		return t.audit(op.Audit)
	case op.SetAdminState != nil:
		return t.setAdminState(op.SetAdminState)
	case op.SetNovaState != nil:
		return t.setNovaState(op.SetNovaState)
	case op.SetSilent != nil:
		return t.setSilent(op.SetSilent)
	case op.EndMaintenance != nil:
		return t.endMaintenance(op.EndMaintenance)
	case op.RemoveHost != nil:
		return t.removeHost(op.RemoveHost)
	case op.WritePlacement != nil:
		return t.writePlacement(op.WritePlacement)
	case op.PutName != nil:
		return t.putName(*op.PutName)
	case op.DeleteName != nil:
		return t.deleteName(*op.DeleteName)
	default:
		return t.unpinGroup(op.Unpin)
	}
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
