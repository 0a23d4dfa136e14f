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
		if one.Verdict, one.Rejections, err = textVerdict(r.verdict); err != nil {
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

// verdictRow is a host's word. In the column of a claim without a verdict, but with
// rejections, it has no outcome.
type verdictRow struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
	Detail  string `json:"detail"`
	BootID  string `json:"boot_id"`
	Version uint64 `json:"version"`
	At      int64  `json:"at"`
	// Before is of the column alone.
	Before []rejectionRow `json:"before,omitempty"`
}

type rejectionRow struct {
	HostUUID    string     `json:"host_uuid"`
	ServiceHost string     `json:"service_host"`
	Verdict     verdictRow `json:"verdict"`
}

func rowOfVerdict(v *shard.Verdict) verdictRow {
	return verdictRow{
		Outcome: string(v.Outcome), Reason: v.Reason, Detail: v.Detail,
		BootID: v.BootID, Version: v.Version, At: rowcodec.Nanos(v.At),
	}
}

func (r *verdictRow) verdict() shard.Verdict {
	return shard.Verdict{
		Outcome: shard.VerdictOutcome(r.Outcome), Reason: r.Reason, Detail: r.Detail,
		BootID: r.BootID, Version: r.Version, At: rowcodec.Instant(r.At),
	}
}

// verdictText is the column of a claim's verdict and rejections; empty for neither.
func verdictText(c *shard.Claim) string {
	if c.Verdict == nil && len(c.Rejections) == 0 {
		return ""
	}
	var row verdictRow
	if c.Verdict != nil {
		row = rowOfVerdict(c.Verdict)
	}
	for i := range c.Rejections {
		r := &c.Rejections[i]
		row.Before = append(row.Before, rejectionRow{r.HostUUID, r.ServiceHost, rowOfVerdict(&r.Verdict)})
	}
	b, _ := json.Marshal(row) // texts and numbers do not fail
	return string(b)
}

func textVerdict(text string) (*shard.Verdict, []shard.Rejection, error) {
	if text == "" {
		return nil, nil, nil
	}
	var row verdictRow
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return nil, nil, err
	}
	var before []shard.Rejection
	for i := range row.Before {
		r := &row.Before[i]
		before = append(before, shard.Rejection{HostUUID: r.HostUUID, ServiceHost: r.ServiceHost, Verdict: r.Verdict.verdict()})
	}
	if row.Outcome == "" {
		return nil, before, nil
	}
	return new(row.verdict()), before, nil
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
