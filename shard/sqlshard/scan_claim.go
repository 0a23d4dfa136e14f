package sqlshard

import (
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// scanClaims reads rows of claimColumns.
func scanClaims(rows pgx.Rows, take func(*shard.Claim)) error {
	var r struct {
		key, state, held, members string
		claim                     shard.Claim
		group                     shard.Group
		expires, created, updated int64
		guest                     []byte
		verdict                   string
	}
	c, g := &r.claim, &r.group
	_, err := pgx.ForEachRow(rows, []any{
		&r.key, &c.ConsumerUUID, &r.state, &c.HostUUID, &c.ServiceHost, &r.held, &c.ProjectID, &c.UserID,
		&c.RequestID, &c.Fingerprint, &c.DecisionID, &c.InstanceIndex, &c.Answer,
		&g.UUID, &g.Policy, &g.MaxPerHost, &r.members,
		&c.Moves, &c.MovesCell, &c.TransferredFrom, &c.Attempt, &c.Adopted, &r.expires, &r.created, &r.updated, &r.guest, &c.TTL, &c.Seen, &r.verdict,
	}, func() error {
		one := r.claim
		one.ClaimID, one.State = idOf(r.key), shard.ClaimState(r.state)
		one.ExpiresAt, one.CreatedAt, one.UpdatedAt = rowcodec.Instant(r.expires), rowcodec.Instant(r.created), rowcodec.Instant(r.updated)
		var err error
		if one.Allocations, err = textAllocations(r.held); err != nil {
			return err
		}
		if one.Guest, err = rowcodec.DecodeGuest(r.guest); err != nil {
			return damaged("the guest of claim %s cannot be read: %v", one.ClaimID, err)
		}
		if one.Verdict, err = textVerdict(r.verdict); err != nil {
			return damaged("the verdict of claim %s cannot be read: %v", one.ClaimID, err)
		}
		if g.UUID != "" {
			group := *g
			if group.Members, err = textList(r.members); err != nil {
				return err
			}
			one.Group = &group
		}
		take(&one)
		return nil
	})
	return err
}

// verdictRow is a claim's verdict in its column.
type verdictRow struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
	Detail  string `json:"detail"`
	BootID  string `json:"boot_id"`
	Version uint64 `json:"version"`
	At      int64  `json:"at"`
}

func verdictText(v *shard.Verdict) string {
	if v == nil {
		return ""
	}
	b, _ := json.Marshal(verdictRow{string(v.Outcome), v.Reason, v.Detail, v.BootID, v.Version, rowcodec.Nanos(v.At)}) // texts and numbers do not fail
	return string(b)
}

func textVerdict(text string) (*shard.Verdict, error) {
	if text == "" {
		return nil, nil
	}
	var r verdictRow
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, err
	}
	return &shard.Verdict{
		Outcome: shard.VerdictOutcome(r.Outcome), Reason: r.Reason, Detail: r.Detail,
		BootID: r.BootID, Version: r.Version, At: rowcodec.Instant(r.At),
	}, nil
}

// holderRow is a pin's holder in its column.
type holderRow struct {
	ClaimID   string `json:"claim_id"`
	ExpiresAt int64  `json:"expires_at"`
}

func holdersText(p *shard.Pin) string {
	rows := make([]holderRow, len(p.Holders))
	for i, h := range p.Holders {
		rows[i] = holderRow{h.ClaimID, rowcodec.Nanos(h.ExpiresAt)}
	}
	b, _ := json.Marshal(rows) // texts and numbers do not fail
	return string(b)
}

// scanPins reads rows of lockPins.
func scanPins(rows pgx.Rows, take func(*shard.Pin) error) error {
	var p shard.Pin
	var text string
	_, err := pgx.ForEachRow(rows, []any{&p.GroupUUID, &p.ServiceHost, &text}, func() error {
		one := p
		var holders []holderRow
		if err := json.Unmarshal([]byte(text), &holders); err != nil {
			return damaged("the holders of pin %s cannot be read: %v", p.GroupUUID, err)
		}
		for _, h := range holders {
			one.Holders = append(one.Holders, shard.Holder{ClaimID: h.ClaimID, ExpiresAt: rowcodec.Instant(h.ExpiresAt)})
		}
		return take(&one)
	})
	return err
}
