package rowcodec

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	storagev1 "cellgate/proto/cellgate/storage/v1"
	"cellgate/shard"
)

// Instant is the inverse of Nanos.
func Instant(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// read decodes a row that Row has written.
func read[M proto.Message, R any](b []byte, m M, row func(M) *R) (*R, error) {
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, err
	}
	return row(m), nil
}

// Host reads a host from its bytes, as the functions below read rows of other kinds.
func Host(b []byte) (*shard.Host, error)   { return read(b, &storagev1.Host{}, rowHost) }
func Usage(b []byte) (*shard.Usage, error) { return read(b, &storagev1.Usage{}, rowUsage) }
func Pin(b []byte) (*shard.Pin, error)     { return read(b, &storagev1.Pin{}, rowPin) }
func Gate(b []byte) (*shard.Gate, error)   { return read(b, &storagev1.Gate{}, rowGate) }
func Namespace(b []byte) (*shard.Namespace, error) {
	return read(b, &storagev1.Namespace{}, rowNamespace)
}

func AdminState(b []byte) (*shard.AdminState, error) {
	return read(b, &storagev1.AdminState{}, rowAdminState)
}
func Name(b []byte) (*shard.CustomName, error) { return read(b, &storagev1.CustomName{}, rowName) }

func rowUsage(m *storagev1.Usage) *shard.Usage {
	return &shard.Usage{
		HostUUID: m.HostUuid, Generation: m.Generation, Used: rowsUsed(m.Used),
		Pending: m.Pending, Confirmed: m.Confirmed,
	}
}

func rowsUsed(rows []*storagev1.Used) []shard.Used {
	if len(rows) == 0 {
		return nil
	}
	us := make([]shard.Used, len(rows))
	for i, r := range rows {
		us[i] = shard.Used{ProviderUUID: r.ProviderUuid, ResourceClass: r.ResourceClass, Amount: r.Amount}
	}
	return us
}

// Claim reads a claim from its bytes.
func Claim(b []byte) (*shard.Claim, error) {
	m := &storagev1.Claim{}
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, err
	}
	return rowClaim(m)
}

func rowClaim(m *storagev1.Claim) (*shard.Claim, error) {
	c := &shard.Claim{
		ClaimID: m.ClaimId, ConsumerUUID: m.ConsumerUuid,
		HostUUID: m.HostUuid, ServiceHost: m.ServiceHost, Allocations: rowsUsed(m.Allocations),
		ProjectID: m.ProjectId, UserID: m.UserId,
		RequestID: m.RequestId, Fingerprint: m.Fingerprint, DecisionID: m.DecisionId,
		InstanceIndex: m.InstanceIndex, Answer: m.Answer, Adopted: m.Adopted, Seen: m.Seen,
		Allocated: m.Allocated, ConsumerGeneration: m.ConsumerGeneration, ConsumerType: m.ConsumerType, ForMigration: m.ForMigration,
		Moves: m.Moves, MovesCell: m.MovesCell, TransferredFrom: m.TransferredFrom, Attempt: m.Attempt, TTL: time.Duration(m.Ttl),
		ExpiresAt: Instant(m.ExpiresAt), CreatedAt: Instant(m.CreatedAt), UpdatedAt: Instant(m.UpdatedAt),
	}
	if m.State <= 0 || int(m.State) >= len(states) {
		return nil, fmt.Errorf("claim %s has state %v", m.ClaimId, m.State)
	}
	c.State = states[m.State]
	if g := m.Group; g != nil {
		c.Group = &shard.Group{UUID: g.Uuid, Policy: g.Policy, MaxPerHost: g.MaxPerHost, Members: g.Members}
	}
	if g := m.Guest; g != nil {
		var err error
		if c.Guest, err = rowGuest(g); err != nil {
			return nil, fmt.Errorf("claim %s: %w", m.ClaimId, err)
		}
	}
	if v := m.Verdict; v != nil {
		c.Verdict = new(rowVerdict(v))
	}
	for _, r := range m.Rejections {
		c.Rejections = append(c.Rejections, shard.Rejection{HostUUID: r.HostUuid, ServiceHost: r.ServiceHost, Verdict: rowVerdict(r.GetVerdict())})
	}
	return c, nil
}

func rowVerdict(v *storagev1.Verdict) shard.Verdict {
	return shard.Verdict{
		Outcome: shard.VerdictOutcome(v.GetOutcome()), Reason: v.GetReason(), Detail: v.GetDetail(),
		BootID: v.GetBootId(), Version: v.GetVersion(), At: Instant(v.GetAt()),
	}
}

func rowPin(m *storagev1.Pin) *shard.Pin {
	p := &shard.Pin{GroupUUID: m.GroupUuid, ServiceHost: m.ServiceHost}
	for _, h := range m.Holders {
		p.Holders = append(p.Holders, shard.Holder{ClaimID: h.ClaimId, ExpiresAt: Instant(h.ExpiresAt)})
	}
	return p
}

func rowGate(m *storagev1.Gate) *shard.Gate {
	return &shard.Gate{
		State: shard.GateState(m.State), Epoch: m.Epoch, Revision: m.Revision, Since: Instant(m.Since), Reason: m.Reason,
		Pin: shard.GateState(m.Pin), PinReason: m.PinReason, HeldSince: Instant(m.HeldSince), HeldUntil: Instant(m.HeldUntil), Falls: m.Falls, RowsAt: Instant(m.RowsAt),
	}
}

func rowNamespace(m *storagev1.Namespace) *shard.Namespace {
	return &shard.Namespace{HostUUID: m.HostUuid, Name: m.Name, Facts: m.Facts, Generation: m.Generation}
}

func rowAdminState(m *storagev1.AdminState) *shard.AdminState {
	return &shard.AdminState{
		HostUUID: m.HostUuid, State: shard.ConditionState(m.State), Reason: m.Reason, By: m.By,
		Since: Instant(m.Since), Until: Instant(m.Until), Generation: m.Generation,
		Nova: shard.ConditionState(m.Nova), NovaReason: m.NovaReason, NovaAt: Instant(m.NovaAt), Silent: m.Silent,
	}
}

func rowName(m *storagev1.CustomName) *shard.CustomName {
	return &shard.CustomName{NameRef: shard.NameRef{Kind: shard.NameKind(m.Kind), Name: m.Name}, Gone: m.Gone}
}

// Time reads only the time of an entry, which is its first field.
func Time(b []byte) (time.Time, error) {
	field, kind, n := protowire.ConsumeTag(b)
	if n < 0 || field != entryAt || kind != protowire.VarintType {
		return time.Time{}, fmt.Errorf("a journal entry that does not begin with its time")
	}
	at, m := protowire.ConsumeVarint(b[n:])
	if m < 0 {
		return time.Time{}, protowire.ParseError(m)
	}
	return Instant(int64(at)), nil
}

// Entry reads a journal entry.
func Entry(b []byte) (at time.Time, changes []shard.Change, err error) {
	m := &storagev1.Entry{}
	if err := proto.Unmarshal(b, m); err != nil {
		return time.Time{}, nil, err
	}
	changes = make([]shard.Change, len(m.Changes))
	for i, c := range m.Changes {
		switch r := c.Row.(type) {
		case *storagev1.Change_Host:
			changes[i].Host = rowHost(r.Host)
		case *storagev1.Change_Usage:
			changes[i].Usage = rowUsage(r.Usage)
		case *storagev1.Change_Claim:
			if changes[i].Claim, err = rowClaim(r.Claim); err != nil {
				return time.Time{}, nil, err
			}
		case *storagev1.Change_Pin:
			changes[i].Pin = rowPin(r.Pin)
		case *storagev1.Change_Gate:
			changes[i].Gate = rowGate(r.Gate)
		case *storagev1.Change_Namespace:
			changes[i].Namespace = rowNamespace(r.Namespace)
		case *storagev1.Change_AdminState:
			changes[i].AdminState = rowAdminState(r.AdminState)
		case *storagev1.Change_Name:
			changes[i].Name = rowName(r.Name)
		default:
			return time.Time{}, nil, fmt.Errorf("a change of an unknown row: %v", c)
		}
	}
	return Instant(m.At), changes, nil
}

func rowGuest(m *storagev1.Guest) (*shard.Guest, error) {
	g := &shard.Guest{FlavorID: m.FlavorId, Image: m.Image, Hardware: m.Hardware, Awaited: m.Awaited}
	if len(m.Assigned) == 0 {
		return g, nil
	}
	if err := json.Unmarshal(m.Assigned, &g.Assigned); err != nil {
		return nil, fmt.Errorf("what its host assigns to it cannot be read: %w", err)
	}
	return g, nil
}
