package sqlshard

import (
	"context"

	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

const (
	pageAdminStates = `SELECT admin FROM host_usages
WHERE host_uuid > $1::text AND admin <> '' ORDER BY host_uuid LIMIT $2::int8`

	putAdminState = `UPDATE host_usages SET admin = $2::bytea, withheld = $3::bool WHERE host_uuid = $1::text`
)

// adminRows writes admin states. Who writes one has its host's usage locked, and writes
// that before.
func (w *writes) adminRows(list []encoded[shard.AdminState]) {
	for _, a := range list {
		w.queue(putAdminState, a.row.HostUUID, a.body, a.row.LeftOut())
	}
}

func (l *loading) adminStates(ctx context.Context) error {
	return visitPages(
		func(after string) ([]*shard.AdminState, error) {
			return bodiesOf(ctx, l.conn, "host_usages", rowcodec.AdminState, pageAdminStates, after, loadPage)
		},
		func(a *shard.AdminState) string { return a.HostUUID },
		func(a *shard.AdminState) error { return l.visit(shard.Change{AdminState: a}) })
}
