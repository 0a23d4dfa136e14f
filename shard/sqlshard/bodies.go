package sqlshard

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// encoded is a row and the value of its body column.
type encoded[T any] struct {
	row  *T
	body []byte
}

func bodyOf[T any](e encoded[T]) []byte { return e.body }

// scanBodies decodes the rows of a statement that selects only bodies. what names the rows in errors.
func scanBodies[T any](rows pgx.Rows, what string, decode func([]byte) (*T, error), take func(*T) error) error {
	var body pgtype.DriverBytes // valid until the next row; decode copies
	_, err := pgx.ForEachRow(rows, []any{&body}, func() error {
		row, err := decode(body)
		if err != nil {
			return damaged("a row of the %s cannot be decoded: %v", what, err)
		}
		return take(row)
	})
	return err
}

// bodiesOf runs a statement that selects only bodies, and decodes its rows.
func bodiesOf[T any](ctx context.Context, c *pgx.Conn, what string, decode func([]byte) (*T, error), sql string, args ...any) ([]*T, error) {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	var list []*T
	err = scanBodies(rows, what, decode, func(row *T) error { list = append(list, row); return nil })
	return list, err
}

func claimsOf(ctx context.Context, c *pgx.Conn, sql string, args ...any) ([]*shard.Claim, error) {
	return bodiesOf(ctx, c, "claims", rowcodec.Claim, sql, args...)
}

// loadHosts reads hosts in the order of their uuids, and keeps them in the cache.
func (s *Store) loadHosts(ctx context.Context, c *pgx.Conn, sql string, args ...any) ([]*shard.Host, error) {
	hosts, err := bodiesOf(ctx, c, "hosts", unpackHost, sql, args...)
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		s.hosts.put(h.UUID, h.Generation, h)
	}
	return hosts, nil
}

func unpackHost(packed []byte) (*shard.Host, error) {
	body, err := rowcodec.Unpack(packed)
	if err != nil {
		return nil, err
	}
	return rowcodec.Host(body)
}
