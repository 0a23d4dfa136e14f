package sqlshard

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"cellgate/shard"
)

var _ shard.HostFinder = (*Store)(nil)

const countHosts = `SELECT count(*) FROM hosts`

// FindHosts searches in the database. A query for all hosts reads each table whole, once. A query with a limit goes
// from host to host and ends when it has enough. A query that also wants rows reads whole tables: in a nearly full
// cell it would go through all hosts one by one, which takes longer.
func (s *Store) FindHosts(ctx context.Context, q shard.HostQuery) (shard.HostMatches, error) {
	var m shard.HostMatches
	err := s.snapshot(ctx, func(ctx context.Context, c *pgx.Conn) error {
		m = shard.HostMatches{} // drop the result of a failed try
		if err := c.QueryRow(ctx, countHosts).Scan(&m.Hosts); err != nil {
			return err
		}
		whole := q.Limit <= 0 || q.Rows
		if prepare := s.server.filters(whole); prepare != "" {
			if _, err := c.Exec(ctx, prepare, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		asked, limit := q, q.Limit
		if whole {
			asked.Limit, asked.From, limit = 0, "", 0
		}
		for _, f := range filtersOf(&asked) {
			more, err := s.filter(ctx, c, f, limit, &m)
			if err != nil {
				return err
			}
			if m.More = m.More || more; m.More {
				break
			}
		}
		if whole && q.Limit > 0 {
			m.UUIDs, m.More = firstFrom(m.UUIDs, q.From, q.Limit)
		}
		if !q.Rows {
			return nil
		}
		var err error
		m.Rows, err = s.rowsOf(ctx, c, m.UUIDs)
		return err
	})
	if err != nil {
		return shard.HostMatches{}, err
	}
	return m, nil
}

// firstFrom gives the first hosts of a sorted list, from one on, and then those before it.
func firstFrom(all []string, from string, limit int) (first []string, more bool) {
	at, _ := slices.BinarySearch(all, from)
	first = slices.Concat(all[at:], all[:at])
	if len(first) > limit {
		return first[:limit], true
	}
	return first, false
}

// filtersOf are the statements of a query: from From to the end, and from the beginning to From. None if no host can
// match.
func filtersOf(q *shard.HostQuery) []*hostFilter {
	switch {
	case nothingHas(q):
		return nil
	case q.Limit > 0 && q.From != "":
		return []*hostFilter{filterFrom(q, " >= "), filterFrom(q, " < ")}
	}
	return []*hostFilter{filterFrom(q, "")}
}

func filterFrom(q *shard.HostQuery, side string) *hostFilter {
	f := filterOf(q)
	if side != "" {
		f.where("h.host_uuid" + side + f.text(q.From))
	}
	return f
}

// filter runs one statement and adds the hosts found, up to a limit. It reports whether there are more.
func (s *Store) filter(ctx context.Context, c *pgx.Conn, f *hostFilter, limit int, m *shard.HostMatches) (more bool, err error) {
	sql := f.sql()
	if limit > 0 {
		sql += ` LIMIT ` + f.number(int64(limit-len(m.UUIDs)+1))
	}
	found, err := texts(ctx, c, sql, f.args...)
	if err != nil {
		return false, err
	}
	m.UUIDs = append(m.UUIDs, found...)
	if limit > 0 && len(m.UUIDs) > limit {
		m.UUIDs, more = m.UUIDs[:limit], true
	}
	return more, nil
}

// rowsOf reads all rows of hosts.
func (s *Store) rowsOf(ctx context.Context, c *pgx.Conn, uuids []string) ([]shard.Change, error) {
	if len(uuids) == 0 {
		return nil, nil
	}
	hosts, err := s.loadHosts(ctx, c, readHosts, uuids)
	if err != nil {
		return nil, err
	}
	var rows []shard.Change
	for _, h := range hosts {
		rows = append(rows, shard.Change{Host: h})
	}
	usages, err := usagesOf(ctx, c, usagesOfHosts, uuids)
	if err != nil {
		return nil, err
	}
	for _, u := range usages {
		if u.Generation > 0 {
			rows = append(rows, shard.Change{Usage: u})
		}
	}
	claims, err := claimsOf(ctx, c, s.grammar.hinted(readClaimsOfHosts), uuids)
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		rows = append(rows, shard.Change{Claim: c})
	}
	found, err := c.Query(ctx, readNamespaces, uuids)
	if err != nil {
		return nil, err
	}
	namespaces, err := scanNamespaces(found)
	for _, n := range namespaces {
		if n.Facts != "" {
			rows = append(rows, shard.Change{Namespace: n})
		}
	}
	return rows, err
}

// nothingHas reports whether a query requires a name that no row can have.
func nothingHas(q *shard.HostQuery) bool {
	for _, list := range [][]string{q.Required, q.Somewhere, {q.ServiceHost, q.NodeName}} {
		for _, name := range list {
			if !keepable(name) {
				return true
			}
		}
	}
	for _, a := range q.Resources {
		if !keepable(a.ResourceClass) {
			return true
		}
	}
	return q.Zone != "" && !keepable(q.Zone) && !q.Unzoned
}
