package novadb

import (
	"context"
	"database/sql"

	"cellgate/internal/fault"
)

// HasNode reports whether the cell's database has a live compute node with a uuid. It opens a connection of its own
// and closes it, since calls are rare.
func (o *Opener) HasNode(ctx context.Context, uuid string) (found bool, err error) {
	d, err := open("cell", o.conf.Database, o.conf.withDefaults())
	if err != nil {
		return false, fault.Invalid("database.url", "%v", err)
	}
	defer func() { _ = d.Close() }() // nothing was written
	s, err := d.openSession(ctx)
	if err != nil {
		return false, err
	}
	defer s.close(ctx)
	_, err = s.each(ctx, "SELECT id FROM compute_nodes WHERE deleted = 0 AND uuid = ? LIMIT ?", []any{uuid, 1}, func(*sql.Rows) error {
		found = true
		return nil
	})
	return found, err
}
