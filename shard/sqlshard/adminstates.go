package sqlshard

import (
	"context"

	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

const pageAdminStates = `SELECT admin FROM host_usages
WHERE host_uuid > $1::text AND admin <> '' ORDER BY host_uuid LIMIT $2::int8`

func (l *loading) adminStates(ctx context.Context) error {
	return visitPages(
		func(after string) ([]*shard.AdminState, error) {
			return bodiesOf(ctx, l.conn, "host_usages", rowcodec.AdminState, pageAdminStates, after, loadPage)
		},
		func(a *shard.AdminState) string { return a.HostUUID },
		func(a *shard.AdminState) error { return l.visit(shard.Change{AdminState: a}) })
}
