package rowcodec

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	storagev1 "cellgate/proto/cellgate/storage/v1"
	"cellgate/schedule/hardware"
	"cellgate/shard"
)

// TestRowsAreAsProtoMarshalsThem: the hand-written encoder gives the bytes of proto.Marshal, and
// they decode to the row.
func TestRowsAreAsProtoMarshalsThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ch shard.Change
		var m proto.Message
		if rapid.Bool().Draw(t, "claim?") {
			ch.Claim = genClaim(t)
			m = claimMessage(ch.Claim)
		} else {
			ch.Usage = &shard.Usage{
				HostUUID: genText(t), Generation: rapid.Int64().Draw(t, "generation"), Used: genUsed(t),
				Pending: rapid.Int32().Draw(t, "pending"), Confirmed: rapid.Int32().Draw(t, "confirmed"),
			}
			m = usageMessage(ch.Usage)
		}
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		before := []byte("before")
		longer, field, row, err := Row(before, ch)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(row, want) || !bytes.Equal(longer, append([]byte("before"), want...)) {
			t.Fatalf("row is\n%x, want\n%x", row, want)
		}
		entry := AppendRow(AppendTime(nil, time.Unix(0, 1)), field, row)
		_, changes, err := Entry(entry)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, row, err = Row(nil, changes[0]); err != nil || !bytes.Equal(row, want) {
			t.Fatalf("what was read is written as\n%x (%v), want\n%x", row, err, want)
		}
	})
}

func TestATextThatIsNotUTF8IsNotWritten(t *testing.T) {
	for _, ch := range []shard.Change{
		{Usage: &shard.Usage{HostUUID: "a\xff"}},
		{Claim: &shard.Claim{State: shard.Pending, Allocations: []shard.Used{{ResourceClass: "\xff"}}}},
		{Claim: &shard.Claim{State: shard.Pending, Group: &shard.Group{Members: []string{"\xff"}}}},
		{Pin: &shard.Pin{ServiceHost: "\xff"}},
		{Gate: &shard.Gate{Reason: "\xff"}},
	} {
		if _, _, _, err := Row(nil, ch); err == nil {
			t.Errorf("%+v was written", ch)
		}
	}
	if _, _, _, err := Row(nil, shard.Change{Usage: &shard.Usage{HostUUID: "\xff"}}); !errors.Is(err, errText) {
		t.Errorf("the error is %v", err)
	}
}

func genText(t *rapid.T) string {
	return rapid.OneOf(rapid.Just(""), rapid.String(), rapid.StringN(0, 400, 400)).Draw(t, "text")
}

func genBytes(t *rapid.T) []byte { return rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes") }

func genTime(t *rapid.T) time.Time { return Instant(rapid.Int64().Draw(t, "time")) }

func genUsed(t *rapid.T) []shard.Used {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) shard.Used {
		return shard.Used{ProviderUUID: genText(t), ResourceClass: genText(t), Amount: rapid.Int64().Draw(t, "amount")}
	}), 0, 4).Draw(t, "used")
}

func genClaim(t *rapid.T) *shard.Claim {
	c := &shard.Claim{
		ClaimID: genText(t), ConsumerUUID: genText(t), State: rapid.SampledFrom(states[1:]).Draw(t, "state"),
		HostUUID: genText(t), ServiceHost: genText(t), Allocations: genUsed(t), ProjectID: genText(t), UserID: genText(t),
		RequestID: genText(t), Fingerprint: genBytes(t), DecisionID: genText(t), InstanceIndex: rapid.Int32().Draw(t, "index"),
		Answer: genBytes(t), Moves: genText(t), MovesCell: genText(t), Attempt: genText(t), TransferredFrom: genText(t), TTL: time.Duration(rapid.Int64().Draw(t, "ttl")),
		Adopted: rapid.Bool().Draw(t, "adopted"), ForMigration: rapid.Bool().Draw(t, "for migration"), Seen: rapid.Bool().Draw(t, "seen"), ExpiresAt: genTime(t), CreatedAt: genTime(t), UpdatedAt: genTime(t),
	}
	if rapid.Bool().Draw(t, "group?") {
		c.Group = &shard.Group{
			UUID: genText(t), Policy: genText(t), MaxPerHost: rapid.Int32().Draw(t, "max"),
			Members: rapid.SliceOfN(rapid.String(), 0, 5).Draw(t, "members"),
		}
	}
	if rapid.Bool().Draw(t, "guest?") {
		c.Guest = &shard.Guest{FlavorID: genText(t), Image: genBytes(t), Hardware: genBytes(t), Awaited: rapid.Bool().Draw(t, "awaited")}
		if rapid.Bool().Draw(t, "assigned") {
			c.Guest.Assigned = &hardware.Assignment{
				Cells:   []hardware.AssignedCell{{ID: 1, PageSize: 2048, MemoryMB: 4, CPUs: 2, Pinned: []int{3, 5}}},
				Devices: []hardware.AssignedDevices{{Pool: "product_id=20b5,vendor_id=10de", Count: 2}},
			}
		}
	}
	if rapid.Bool().Draw(t, "verdict?") {
		c.Verdict = new(genVerdict(t))
	}
	for range rapid.IntRange(0, 3).Draw(t, "rejections") {
		c.Rejections = append(c.Rejections, shard.Rejection{HostUUID: genText(t), ServiceHost: genText(t), Verdict: genVerdict(t)})
	}
	return c
}

func genVerdict(t *rapid.T) shard.Verdict {
	return shard.Verdict{
		Outcome: shard.VerdictOutcome(genText(t)), Reason: genText(t), Detail: genText(t), BootID: genText(t),
		Version: rapid.Uint64().Draw(t, "version"), At: genTime(t),
	}
}

func usedMessages(list []shard.Used) []*storagev1.Used {
	var rows []*storagev1.Used
	for _, u := range list {
		rows = append(rows, &storagev1.Used{ProviderUuid: u.ProviderUUID, ResourceClass: u.ResourceClass, Amount: u.Amount})
	}
	return rows
}

func usageMessage(u *shard.Usage) *storagev1.Usage {
	return &storagev1.Usage{HostUuid: u.HostUUID, Generation: u.Generation, Used: usedMessages(u.Used), Pending: u.Pending, Confirmed: u.Confirmed}
}

func claimMessage(c *shard.Claim) *storagev1.Claim {
	m := &storagev1.Claim{
		ClaimId: c.ClaimID, ConsumerUuid: c.ConsumerUUID, State: storagev1.ClaimState(storagev1.ClaimState_value["CLAIM_STATE_"+string(c.State)]),
		HostUuid: c.HostUUID, ServiceHost: c.ServiceHost, Allocations: usedMessages(c.Allocations),
		ProjectId: c.ProjectID, UserId: c.UserID,
		RequestId: c.RequestID, Fingerprint: c.Fingerprint, DecisionId: c.DecisionID,
		InstanceIndex: c.InstanceIndex, Answer: c.Answer, Adopted: c.Adopted, ForMigration: c.ForMigration,
		Moves: c.Moves, MovesCell: c.MovesCell, TransferredFrom: c.TransferredFrom, Attempt: c.Attempt, Ttl: int64(c.TTL), Seen: c.Seen,
		ExpiresAt: Nanos(c.ExpiresAt), CreatedAt: Nanos(c.CreatedAt), UpdatedAt: Nanos(c.UpdatedAt),
	}
	if g := c.Group; g != nil {
		m.Group = &storagev1.Group{Uuid: g.UUID, Policy: g.Policy, MaxPerHost: g.MaxPerHost, Members: g.Members}
	}
	if g := c.Guest; g != nil {
		m.Guest = &storagev1.Guest{FlavorId: g.FlavorID, Image: g.Image, Hardware: g.Hardware, Awaited: g.Awaited, Assigned: assignedRow(g)}
	}
	if v := c.Verdict; v != nil {
		m.Verdict = verdictMessage(v)
	}
	for i := range c.Rejections {
		r := &c.Rejections[i]
		m.Rejections = append(m.Rejections, &storagev1.Rejection{HostUuid: r.HostUUID, ServiceHost: r.ServiceHost, Verdict: verdictMessage(&r.Verdict)})
	}
	return m
}

func verdictMessage(v *shard.Verdict) *storagev1.Verdict {
	return &storagev1.Verdict{Outcome: string(v.Outcome), Reason: v.Reason, Detail: v.Detail, BootId: v.BootID, Version: v.Version, At: Nanos(v.At)}
}
