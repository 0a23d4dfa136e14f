// Package pgproxy is a proxy for tests between a client and a PostgreSQL, or
// CockroachDB, server: it knows which statement is being executed, and makes a
// seeded plan's faults of it.
//
//	p, err := pgproxy.New(server.Addr())
//	p.SetPlan(pgproxy.Seeded(seed, pgproxy.Weather(0.02)...))
//	pgx.Connect(ctx, p.URL(server.URL("postgres")))
//
// An error is made by the server itself: the proxy sends it a statement that it
// cannot parse in the place of the one that fails, and changes the code of its
// answer. So what follows is right by itself: the transaction is aborted, the rest
// of the pipeline is skipped up to its Sync, and ReadyForQuery has the status. A COMMIT that
// is refused is a ROLLBACK first; one that is done but reported as failed is done
// and followed by the statement that fails.
//
// The messages of a client are held back until one that asks for an answer (Sync,
// Flush, Query): a trip. Of a trip's statements at most one fails.
//
// Report adds to the server's parameters, so that it can pass for another.
//
// CutAll ends all connections at once; SilenceAll keeps them open, and passes nothing of
// them on any more.
//
// TLS is refused ('N'): clients that can do without go on in plain text. Passwords
// pass through, and so do cancel requests.
package pgproxy
