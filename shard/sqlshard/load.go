package sqlshard

import (
	"context"

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

// visitPages visits rows page by page. read gives the rows after a key, in the order of key.
func visitPages[T any](read func(after string) ([]*T, error), key func(*T) string, visit func(*T) error) error {
	for after := ""; ; {
		page, err := read(after)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, row := range page {
			if err := visit(row); err != nil {
				return err
			}
		}
		after = key(page[len(page)-1])
	}
}

func (l *loading) hosts(ctx context.Context) error {
	return visitPages(
		func(after string) ([]*shard.Host, error) {
			return l.store.loadHosts(ctx, l.conn, pageHosts, after, loadPage)
		},
		func(h *shard.Host) string { return h.UUID },
		func(h *shard.Host) error { return l.visit(shard.Change{Host: h}) })
}

func (l *loading) usages(ctx context.Context) error {
	return visitPages(
		func(after string) ([]*shard.Usage, error) {
			return usagesOf(ctx, l.conn, pageHostUsages, after, loadPage)
		},
		func(u *shard.Usage) string { return u.HostUUID },
		func(u *shard.Usage) error {
			if u.Generation == 0 {
				return nil // the host never had a claim
			}
			return l.visit(shard.Change{Usage: u})
		})
}

func (l *loading) claims(ctx context.Context) error {
	return visitPages(
		func(after string) ([]*shard.Claim, error) {
			return claimsOf(ctx, l.conn, pageClaims, after, loadPage)
		},
		func(c *shard.Claim) string { return keyOf(c.ClaimID) },
		func(c *shard.Claim) error { return l.visit(shard.Change{Claim: c}) })
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

func (l *loading) pins(ctx context.Context) error {
	pins, err := bodiesOf(ctx, l.conn, "pins", rowcodec.Pin, allPins)
	if err != nil {
		return err
	}
	for _, p := range pins {
		if err := l.visit(shard.Change{Pin: p}); err != nil {
			return err
		}
	}
	return nil
}
