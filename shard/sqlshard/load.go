package sqlshard

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// loadPage is how many hosts, or claims, one statement of Load reads.
const loadPage = 500

const (
	pageHosts    = `SELECT body FROM hosts WHERE host_uuid > $1::text ORDER BY host_uuid LIMIT $2::int8`
	usageColumns = `host_uuid, generation, pending, confirmed, used`

	pageHostUsages = `SELECT ` + usageColumns + ` FROM host_usages
WHERE host_uuid > $1::text ORDER BY host_uuid LIMIT $2::int8`
	usagesOfHosts = `SELECT ` + usageColumns + ` FROM host_usages WHERE host_uuid = ANY($1::text[]) ORDER BY host_uuid`
	pageClaims    = `SELECT c.body FROM claims c
WHERE c.claim_key > $1::text ORDER BY c.claim_key LIMIT $2::int8`
	allPins = `SELECT body FROM pins ORDER BY group_uuid`

	// pageNamespaces leaves out those with an empty name.
	pageNamespaces = `SELECT host_uuid, name, facts, generation FROM host_namespaces
WHERE (host_uuid, name) > ($1::text, $2::text) AND facts <> '' ORDER BY host_uuid, name LIMIT $3::int8`
	pageAdminStates = `SELECT admin FROM host_usages
WHERE host_uuid > $1::text AND admin <> '' ORDER BY host_uuid LIMIT $2::int8`
	allNames = `SELECT name FROM custom_names ORDER BY name`
)

// Load reads page by page as of one moment. The visitor runs between pages, while the transaction is open.
func (s *Store) Load(ctx context.Context, visit func(shard.Change) error) (at shard.Cursor, err error) {
	s.hosts.forget()
	s.usages.forget()
	var refused error
	begun := false
	err = s.snapshotWithoutIdleLimit(ctx, func(ctx context.Context, c *pgx.Conn) error {
		if begun {
			return fault.New(fault.CellUnavailable, "the database of cell %s broke off a load", s.opts.Cell)
		}
		lanes, err := lanesOf(ctx, c)
		if err != nil {
			return err
		}
		if at, err = positions(ctx, c, lanes); err != nil {
			return err
		}
		l := &loading{store: s, conn: c, visit: func(ch shard.Change) error {
			if ch.Usage != nil && ch.Usage.Generation == 0 {
				return nil // the host never had a claim
			}
			begun = true
			if err := ctx.Err(); err != nil {
				return err
			}
			refused = visit(ch)
			return refused
		}}
		for _, part := range []func(context.Context) error{l.gate, l.hosts, l.usages, l.claims, l.pins, l.namespaces, l.adminStates, l.customNames} {
			if err := part(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	return at, nil
}

// loading is a running Load.
type loading struct {
	store *Store
	conn  *pgx.Conn
	visit func(shard.Change) error
}

// visitAll visits the changes to rows that were read, or gives the error of the read.
func visitAll[T any](l *loading, rows []T, err error, change func(T) shard.Change) error {
	for _, row := range rows {
		if err == nil {
			err = l.visit(change(row))
		}
	}
	return err
}

// visitPages visits rows page by page. read gives the rows after a key, in the order of key.
func visitPages[T any](l *loading, read func(after string) ([]*T, error), key func(*T) string, change func(*T) shard.Change) error {
	for after := ""; ; {
		page, err := read(after)
		if err := visitAll(l, page, err, change); err != nil || len(page) == 0 {
			return err
		}
		after = key(page[len(page)-1])
	}
}

func (l *loading) gate(ctx context.Context) error {
	gates, err := bodiesOf(ctx, l.conn, "gate", rowcodec.Gate, readGate)
	return visitAll(l, gates, err, func(g *shard.Gate) shard.Change { return shard.Change{Gate: g} })
}

func (l *loading) hosts(ctx context.Context) error {
	return visitPages(l,
		func(after string) ([]*shard.Host, error) {
			return l.store.loadHosts(ctx, l.conn, pageHosts, after, loadPage)
		},
		func(h *shard.Host) string { return h.UUID },
		func(h *shard.Host) shard.Change { return shard.Change{Host: h} })
}

func (l *loading) usages(ctx context.Context) error {
	return visitPages(l,
		func(after string) ([]*shard.Usage, error) {
			return usagesOf(ctx, l.conn, pageHostUsages, after, loadPage)
		},
		func(u *shard.Usage) string { return u.HostUUID },
		func(u *shard.Usage) shard.Change { return shard.Change{Usage: u} })
}

func (l *loading) claims(ctx context.Context) error {
	return visitPages(l,
		func(after string) ([]*shard.Claim, error) {
			return claimsOf(ctx, l.conn, pageClaims, after, loadPage)
		},
		func(c *shard.Claim) string { return keyOf(c.ClaimID) },
		func(c *shard.Claim) shard.Change { return shard.Change{Claim: c} })
}

func (l *loading) pins(ctx context.Context) error {
	pins, err := bodiesOf(ctx, l.conn, "pins", rowcodec.Pin, allPins)
	return visitAll(l, pins, err, func(p *shard.Pin) shard.Change { return shard.Change{Pin: p} })
}

func (l *loading) namespaces(ctx context.Context) error {
	return visitPages(l,
		func(after string) ([]*shard.Namespace, error) {
			host, name, _ := strings.Cut(after, " ")
			rows, err := l.conn.Query(ctx, pageNamespaces, host, name, loadPage)
			if err != nil {
				return nil, err
			}
			return scanNamespaces(rows)
		},
		func(n *shard.Namespace) string { return n.HostUUID + " " + n.Name },
		func(n *shard.Namespace) shard.Change { return shard.Change{Namespace: n} })
}

func (l *loading) adminStates(ctx context.Context) error {
	return visitPages(l,
		func(after string) ([]*shard.AdminState, error) {
			return bodiesOf(ctx, l.conn, "host_usages", rowcodec.AdminState, pageAdminStates, after, loadPage)
		},
		func(a *shard.AdminState) string { return a.HostUUID },
		func(a *shard.AdminState) shard.Change { return shard.Change{AdminState: a} })
}

func (l *loading) customNames(ctx context.Context) error {
	names, err := texts(ctx, l.conn, allNames)
	return visitAll(l, names, err, func(key string) shard.Change {
		return shard.Change{Name: &shard.CustomName{NameRef: customRef(key)}}
	})
}

// usagesOf reads usages. Generation 0 means that the host never had a claim.
func usagesOf(ctx context.Context, c *pgx.Conn, sql string, args ...any) ([]*shard.Usage, error) {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	var list []*shard.Usage
	var u shard.Usage
	var text string
	_, err = pgx.ForEachRow(rows, []any{&u.HostUUID, &u.Generation, &u.Pending, &u.Confirmed, &text}, func() error {
		one := u
		var err error
		one.Used, err = textUsed(text)
		list = append(list, &one)
		return err
	})
	return list, err
}
