package rowcodec

import (
	"encoding/json"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	storagev1 "cellgate/proto/cellgate/storage/v1"
	"cellgate/shard"
)

// Field numbers of storagev1.Entry and storagev1.Change.
const (
	entryAt      protowire.Number = 1
	entryChanges protowire.Number = 2
	changeHost   protowire.Number = 1
	changeUsage  protowire.Number = 2
	changeClaim  protowire.Number = 3
	changePin    protowire.Number = 4
	changeGate   protowire.Number = 5

	changeNamespace  protowire.Number = 6
	changeAdminState protowire.Number = 7
	changeName       protowire.Number = 8
)

// AppendRow adds an encoded row to an encoded storagev1.Entry, so that a row
// is encoded once for its key and its journal entry.
func AppendRow(entry []byte, field protowire.Number, row []byte) []byte {
	entry = protowire.AppendTag(entry, entryChanges, protowire.BytesType)
	entry = protowire.AppendVarint(entry, uint64(protowire.SizeTag(field)+protowire.SizeBytes(len(row))))
	entry = protowire.AppendTag(entry, field, protowire.BytesType)
	return protowire.AppendBytes(entry, row)
}

// AppendTime adds the time of an entry, which must be its first field.
func AppendTime(entry []byte, at time.Time) []byte {
	entry = protowire.AppendTag(entry, entryAt, protowire.VarintType)
	return protowire.AppendVarint(entry, uint64(at.UnixNano()))
}

// Row appends a change's row to buf, which it gives as longer. It also gives the row, the end of longer, and its
// field in storagev1.Change.
func Row(buf []byte, c shard.Change) (longer []byte, field protowire.Number, row []byte, err error) {
	at := len(buf)
	w := wire{b: buf}
	var m proto.Message
	switch {
	case c.Host != nil:
		field, m = changeHost, hostRow(c.Host)
	case c.Usage != nil:
		field = changeUsage
		w.usage(c.Usage)
	case c.Claim != nil:
		field = changeClaim
		w.claim(c.Claim)
	case c.Gate != nil:
		field, m = changeGate, gateRow(c.Gate)
	case c.Namespace != nil:
		field, m = changeNamespace, namespaceRow(c.Namespace)
	case c.AdminState != nil:
		field, m = changeAdminState, adminRow(c.AdminState)
	case c.Name != nil:
		field, m = changeName, nameRow(c.Name)
	default:
		field, m = changePin, pinRow(c.Pin)
	}
	if m != nil {
		w.b, err = proto.MarshalOptions{}.MarshalAppend(w.b, m)
	}
	if err == nil && w.bad {
		err = errText
	}
	return w.b, field, w.b[at:], err
}

// Nanos is the encoding of a time in rows: nanoseconds since 1970 UTC, 0 for none.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// states are in the order of storagev1.ClaimState.
var states = [...]shard.ClaimState{"", shard.Pending, shard.Confirmed, shard.Expired, shard.Released, shard.Rejected}

func stateRow(s shard.ClaimState) storagev1.ClaimState {
	return storagev1.ClaimState(max(0, slices.Index(states[:], s)))
}

func pinRow(p *shard.Pin) *storagev1.Pin {
	m := &storagev1.Pin{GroupUuid: p.GroupUUID, ServiceHost: p.ServiceHost}
	for _, h := range p.Holders {
		m.Holders = append(m.Holders, &storagev1.Holder{ClaimId: h.ClaimID, ExpiresAt: Nanos(h.ExpiresAt)})
	}
	return m
}

func gateRow(g *shard.Gate) *storagev1.Gate {
	return &storagev1.Gate{
		State: string(g.State), Epoch: g.Epoch, Revision: g.Revision, Since: Nanos(g.Since), Reason: g.Reason,
		Pin: string(g.Pin), PinReason: g.PinReason, HeldSince: Nanos(g.HeldSince), HeldUntil: Nanos(g.HeldUntil), Falls: g.Falls, RowsAt: Nanos(g.RowsAt),
	}
}

func namespaceRow(n *shard.Namespace) *storagev1.Namespace {
	return &storagev1.Namespace{HostUuid: n.HostUUID, Name: n.Name, Facts: n.Facts, Generation: n.Generation}
}

func adminRow(a *shard.AdminState) *storagev1.AdminState {
	return &storagev1.AdminState{
		HostUuid: a.HostUUID, State: string(a.State), Reason: a.Reason, By: a.By,
		Since: Nanos(a.Since), Until: Nanos(a.Until), Generation: a.Generation,
		Nova: string(a.Nova), NovaReason: a.NovaReason, NovaAt: Nanos(a.NovaAt), Silent: a.Silent,
	}
}

func nameRow(n *shard.CustomName) *storagev1.CustomName {
	return &storagev1.CustomName{Kind: string(n.Kind), Name: n.Name, Gone: n.Gone}
}

// assignedRow is Guest.Assigned as JSON; empty for none.
func assignedRow(g *shard.Guest) []byte {
	if g.Assigned == nil {
		return nil
	}
	b, _ := json.Marshal(g.Assigned) // texts and numbers always encode
	return b
}
