package novadb

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"cellgate/internal/fault"
	"cellgate/schedule/nova"
)

// Reader reads one cell. Safe for concurrent use.
type Reader struct {
	conf    Config
	options nova.RowOptions
	cell    *database
	api     *database // nil for none
	// revisions numbers the snapshots.
	revisions atomic.Uint64
}

// Open makes a reader and asks the databases for their time, within ctx and the query
// timeout. A wrong configuration is INVALID_REQUEST, with its fields; a database that does
// not answer is CELL_UNAVAILABLE.
func Open(ctx context.Context, c Config) (*Reader, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	r := &Reader{conf: c, options: c.options()}
	var err error
	if r.cell, err = open("cell", c.Database, c); err != nil {
		return nil, fault.Invalid("database.url", "%v", err)
	}
	if c.API.URL != "" {
		if r.api, err = open("api", c.API, c); err != nil {
			_ = r.cell.Close() // it has no connection yet
			return nil, fault.Invalid("api.url", "%v", err)
		}
	}
	for _, d := range []*database{r.cell, r.api} {
		if d == nil {
			continue
		}
		if err := d.transaction(ctx, func(*session, time.Time) error { return nil }); err != nil {
			_ = r.Close() // the first error counts
			return nil, err
		}
	}
	return r, nil
}

// Close ends the connections. Calls that are under way fail.
func (r *Reader) Close() error {
	err := r.cell.Close()
	if r.api != nil {
		err = errors.Join(err, r.api.Close())
	}
	return err
}

// Load reads everything.
func (r *Reader) Load(ctx context.Context) (*Snapshot, error) {
	return r.read(ctx, nil, true)
}

// Refresh gives the present content of the databases, and reads only compute nodes that since
// does not know. It reads everything if since is nil or another reader's, if most rows have
// changed, or if the server's time went back. The package comment says which changes it
// cannot see.
func (r *Reader) Refresh(ctx context.Context, since *Snapshot) (*Snapshot, error) {
	if since == nil || since.of != r {
		since = nil
	}
	return r.read(ctx, since, since == nil)
}

func (r *Reader) read(ctx context.Context, since *Snapshot, full bool) (*Snapshot, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, r.conf.LoadTimeout)
	defer cancel()
	x := &Snapshot{
		CellUUID: r.conf.CellUUID, of: r, revision: r.revisions.Add(1), down: r.conf.ServiceDownTime,
	}
	var before []tracked
	if since != nil {
		before = since.nodes
	}
	err := r.cell.transaction(ctx, func(s *session, at time.Time) error {
		x.At = at
		if x.Full = full || at.Before(since.At); x.Full {
			if err := r.allNodes(ctx, s, x, before); err != nil {
				return err
			}
		} else if err := r.changedNodes(ctx, s, x, before); err != nil {
			return err
		}
		if err := r.readServices(ctx, s, x); err != nil {
			return err
		}
		return r.readAge(ctx, s, x)
	})
	if err != nil {
		return nil, err
	}
	if r.api != nil {
		if err := r.readAPI(ctx, x); err != nil {
			return nil, err
		}
	}
	x.join(r.conf.MaxLeftOut)
	x.Took = time.Since(start)
	return x, nil
}

// HasNode reports whether a cell's database has a live compute node with a uuid. It opens a connection and closes it,
// since calls are rare.
func HasNode(ctx context.Context, c Config, uuid string) (found bool, err error) {
	d, err := open("cell", c.Database, c.withDefaults())
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
