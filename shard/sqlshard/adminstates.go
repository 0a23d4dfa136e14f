package sqlshard

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

const (
	pageAdminStates = `SELECT host_uuid, admin FROM host_usages
WHERE host_uuid > $1::text AND admin <> '' ORDER BY host_uuid LIMIT $2::int8`

	putAdminState = `UPDATE host_usages SET admin = $2::text, withheld = $3::bool WHERE host_uuid = $1::text`
)

// adminRow is an AdminState in its column.
type adminRow struct {
	State      string `json:"state"`
	Reason     string `json:"reason"`
	By         string `json:"by"`
	Since      int64  `json:"since"`
	Until      int64  `json:"until"`
	Generation int64  `json:"generation"`
	Nova       string `json:"nova,omitempty"`
	NovaReason string `json:"nova_reason,omitempty"`
	Silent     bool   `json:"silent,omitempty"`
	NovaAt     int64  `json:"nova_at,omitempty"`
}

func adminText(a *shard.AdminState) string {
	b, _ := json.Marshal(adminRow{string(a.State), a.Reason, a.By, rowcodec.Nanos(a.Since), rowcodec.Nanos(a.Until), a.Generation, string(a.Nova), a.NovaReason, a.Silent, rowcodec.Nanos(a.NovaAt)}) // texts and numbers do not fail
	return string(b)
}

// textAdmin reads what adminText wrote of a host; nil for none.
func textAdmin(host, text string) (*shard.AdminState, error) {
	if text == "" {
		return nil, nil
	}
	var r adminRow
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, damaged("what operators want of host %s cannot be read: %v", host, err)
	}
	return &shard.AdminState{
		HostUUID: host, State: shard.Admin(r.State), Reason: r.Reason, By: r.By,
		Since: rowcodec.Instant(r.Since), Until: rowcodec.Instant(r.Until), Generation: r.Generation,
		Nova: shard.NovaState(r.Nova), NovaReason: r.NovaReason, Silent: r.Silent, NovaAt: rowcodec.Instant(r.NovaAt),
	}, nil
}

// adminRows writes admin states. Who writes one has its host's usage locked, and writes
// that before.
func (w *writes) adminRows(list []*shard.AdminState) {
	for _, a := range list {
		w.queue(putAdminState, a.HostUUID, adminText(a), a.LeftOut())
	}
}

func (l *loading) adminStates(ctx context.Context) error {
	after := ""
	for {
		rows, err := l.conn.Query(ctx, pageAdminStates, after, loadPage)
		if err != nil {
			return err
		}
		var page []*shard.AdminState
		var host, text string
		_, err = pgx.ForEachRow(rows, []any{&host, &text}, func() error {
			a, err := textAdmin(host, text)
			page = append(page, a)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, a := range page {
			if err := l.visit(shard.Change{AdminState: a}); err != nil {
				return err
			}
		}
		after = page[len(page)-1].HostUUID
	}
}
