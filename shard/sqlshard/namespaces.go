package sqlshard

import (
	"github.com/jackc/pgx/v5"

	"cellgate/shard"
)

// scanNamespaces reads rows of host_namespaces.
func scanNamespaces(rows pgx.Rows) (list []*shard.Namespace, err error) {
	var n shard.Namespace
	_, err = pgx.ForEachRow(rows, []any{&n.HostUUID, &n.Name, &n.Facts, &n.Generation}, func() error {
		one := n
		list = append(list, &one)
		return nil
	})
	return list, err
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
