package sqlshard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Open connects to a shard's database, checks that it belongs to this cell and has this program's schema, and creates
// what Options allow. Its errors are for the operator who starts the process: they have no fault.Kind. The context
// bounds only Open itself.
func Open(ctx context.Context, opts Options) (*Store, error) {
	s, err := connect(ctx, opts)
	if err != nil {
		return nil, err
	}
	s.opts.warnOfPassword()
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("the shard %s: %w", Redacted(opts.URL), err), s.Close())
	}
	return s, nil
}

// connect connects without checking the schema, and makes the database if Options.Create.
func connect(ctx context.Context, opts Options) (*Store, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	config, demanded, err := parseURL(opts.URL)
	if err != nil {
		return nil, err
	}
	if opts.Create {
		if err := createDatabase(ctx, opts, config, demanded); err != nil {
			return nil, fmt.Errorf("the database of %s cannot be made: %w", Redacted(opts.URL), err)
		}
	}
	s := &Store{opts: opts}
	if err := s.openPool(ctx, config, demanded); err != nil {
		return nil, fmt.Errorf("the shard %s: %w", Redacted(opts.URL), err)
	}
	return s, nil
}

// openPool detects the kind of server, and makes the pool.
func (s *Store) openPool(ctx context.Context, config *pgxpool.Config, demanded *server) error {
	s.opts.connecting(config.ConnConfig)
	c, err := connectOnce(ctx, s.opts, config.ConnConfig)
	if state(err) == invalidCatalogName {
		return fmt.Errorf("%w: run cellgate migrate up, which makes it", err)
	}
	if err != nil {
		return err
	}
	s.grammar, s.version, err = detect(ctx, c)
	s.server = s.grammar
	if s.opts.as != nil {
		s.server = *s.opts.as
	}
	if err == nil {
		s.boundsIdle, err = s.tryIdleLimit(ctx, c)
	}
	if err = errors.Join(err, c.Close(ctx), s.server.checkName(config.ConnConfig.Database)); err != nil {
		return err
	}
	settings := s.server.session(s.opts)
	if s.boundsIdle {
		settings += "; " + idleLimit(s.opts.IdleTimeout)
	}
	if err := s.server.mustBe(demanded, s.version); err != nil {
		return err
	}
	s.direct = config.ConnConfig.Copy()
	config.ConnConfig.DialFunc = attentive(config.ConnConfig.DialFunc, s.opts.StatementTimeout+silenceMargin)
	config.BeforeConnect = s.opts.withSecrets
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		registerLists(c.TypeMap())
		_, err := c.Exec(ctx, settings, pgx.QueryExecModeSimpleProtocol)
		return err
	}
	switch {
	case s.opts.MaxConns > 0:
		config.MaxConns = s.opts.MaxConns
	case !namesParameter(s.opts.URL, "pool_max_conns"):
		config.MaxConns = defaultConns
	}
	if !namesParameter(s.opts.URL, "pool_max_conn_lifetime") {
		config.MaxConnLifetime = connLifetime
	}
	if !namesParameter(s.opts.URL, "pool_max_conn_lifetime_jitter") {
		config.MaxConnLifetimeJitter = connLifetime / 5
	}
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.pool, err = pgxpool.NewWithConfig(s.ctx, config)
	return err
}

// connectOnce makes a connection outside of the pool.
func connectOnce(ctx context.Context, opts Options, config *pgx.ConnConfig) (*pgx.Conn, error) {
	one := config.Copy()
	opts.connecting(one)
	if err := opts.withSecrets(ctx, one); err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, one)
}

// createDatabase makes the database of a URL, if it does not exist. Another replica may make it at the same time.
func createDatabase(ctx context.Context, opts Options, config *pgxpool.Config, demanded *server) (err error) {
	name := config.ConnConfig.Database
	c, err := connectOnce(ctx, opts, config.ConnConfig)
	missing := state(err) == invalidCatalogName
	if missing {
		if c, err = connectElsewhere(ctx, opts, config.ConnConfig); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	kind, version, err := detect(ctx, c)
	if err == nil {
		err = kind.mustBe(demanded, version)
	}
	// CockroachDB of the 20.2 line accepts a connection to a database that does not exist.
	if err != nil || kind == postgres && !missing {
		return err
	}
	if err := kind.checkName(name); err != nil {
		return err
	}
	_, err = c.Exec(ctx, kind.createDatabase(name))
	switch code := state(err); {
	case code == duplicateDatabase || code == uniqueViolation:
		return nil
	case code == insufficientPrivilege && !missing:
		return nil // it probably exists; if not, that shows later
	}
	return err
}

// Drop drops the database of a URL, if it exists. Callers must close its stores before.
func Drop(ctx context.Context, opts Options) error {
	opts, err := opts.complete()
	if err != nil {
		return err
	}
	config, _, err := parseURL(opts.URL)
	if err != nil {
		return err
	}
	c, err := connectElsewhere(ctx, opts, config.ConnConfig)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{config.ConnConfig.Database}.Sanitize())
	return errors.Join(err, c.Close(ctx))
}

// connectElsewhere connects to a database that always exists. The kind of server is not known yet, so it tries those
// of both.
func connectElsewhere(ctx context.Context, opts Options, config *pgx.ConnConfig) (c *pgx.Conn, err error) {
	for _, s := range []server{postgres, cockroach} {
		system := config.Copy()
		system.Database = s.system()
		if c, err = connectOnce(ctx, opts, system); err == nil || state(err) != invalidCatalogName {
			break
		}
	}
	return c, err
}

// prepare migrates if allowed, checks the schema and the cell, and reads the reserved time.
func (s *Store) prepare(ctx context.Context) error {
	if s.opts.Migrate {
		if _, err := s.migrate(ctx); err != nil {
			return err
		}
	}
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	if err := s.checkSchema(ctx, c.Conn()); err != nil {
		return err
	}
	if err := s.identify(ctx, c.Conn()); err != nil {
		return err
	}
	var reserved int64
	err = c.QueryRow(ctx, reservedTime).Scan(&reserved)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	s.clock.start(reserved)
	return nil
}

// identify records the cell of a new shard, or checks it.
func (s *Store) identify(ctx context.Context, c *pgx.Conn) error {
	if _, err := c.Exec(ctx, nameCell, s.opts.Cell, s.opts.CellUUID); err != nil {
		return err
	}
	return s.checkCell(ctx, c)
}

// checkCell fails if the shard belongs to another cell. A shard without a cell passes.
func (s *Store) checkCell(ctx context.Context, c *pgx.Conn) error {
	var name, uuid string
	err := c.QueryRow(ctx, readCell).Scan(&name, &uuid)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if name != s.opts.Cell || uuid != s.opts.CellUUID {
		return fmt.Errorf("it is of cell %s (uuid %q), not of cell %s (uuid %q); give the cell its own database", name, uuid, s.opts.Cell, s.opts.CellUUID)
	}
	return nil
}
