package legacytest

import (
	"context"

	"github.com/jackc/pgx/v5/stdlib"
)

// simple runs statements by PostgreSQL's simple protocol, all of them or none.
func (d *Database) simple(ctx context.Context, statements string) error {
	c, err := d.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // gives it back
	return c.Raw(func(driver any) error {
		_, err := driver.(*stdlib.Conn).Conn().PgConn().Exec(ctx, statements).ReadAll()
		return err
	})
}
