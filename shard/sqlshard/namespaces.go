package sqlshard

import (
	"context"

	"github.com/jackc/pgx/v5"

	"cellgate/shard"
)

// pageNamespaces leaves out those with an empty name.
const pageNamespaces = `SELECT host_uuid, name, facts, generation FROM host_namespaces
WHERE (host_uuid, name) > ($1::text, $2::text) AND facts <> '' ORDER BY host_uuid, name LIMIT $3::int8`

// scanNamespaces reads rows of host_namespaces.
func scanNamespaces(rows pgx.Rows, take func(*shard.Namespace) error) error {
	var n shard.Namespace
	_, err := pgx.ForEachRow(rows, []any{&n.HostUUID, &n.Name, &n.Facts, &n.Generation}, func() error {
		one := n
		return take(&one)
	})
	return err
}

func (p *picture) addNamespace(n *shard.Namespace) {
	of := p.namespaces[n.HostUUID]
	if of == nil {
		of = map[string]*shard.Namespace{}
		p.namespaces[n.HostUUID] = of
	}
	of[n.Name] = n
}

// namespaceRows writes namespaces, which must be sorted. The transaction has locked their hosts' usages.
func (w *writes) namespaceRows(list []*shard.Namespace) {
	var kept []*shard.Namespace
	for _, n := range list {
		if n.Deleted() {
			w.queue(deleteNamespaces, n.HostUUID, []string{n.Name})
			continue
		}
		kept = append(kept, n)
	}
	if len(kept) > 0 {
		w.queue(putNamespaces,
			column(kept, func(n *shard.Namespace) string { return n.HostUUID }),
			column(kept, func(n *shard.Namespace) string { return n.Name }),
			column(kept, func(n *shard.Namespace) string { return n.Facts }),
			column(kept, func(n *shard.Namespace) int64 { return n.Generation }))
	}
}

func (l *loading) namespaces(ctx context.Context) error {
	after := &shard.Namespace{}
	for {
		rows, err := l.conn.Query(ctx, pageNamespaces, after.HostUUID, after.Name, loadPage)
		if err != nil {
			return err
		}
		var page []*shard.Namespace
		if err := scanNamespaces(rows, func(n *shard.Namespace) error { page = append(page, n); return nil }); err != nil || len(page) == 0 {
			return err
		}
		for _, n := range page {
			if err := l.visit(shard.Change{Namespace: n}); err != nil {
				return err
			}
		}
		after = page[len(page)-1]
	}
}
