// Package pgproxy is a proxy for tests between a client and a PostgreSQL or CockroachDB server. It
// knows which statement is being executed, and injects the faults of a seeded plan.
//
//	p, err := pgproxy.New(server.Addr())
//	p.SetPlan(pgproxy.Seeded(seed, pgproxy.Weather(0.02)...))
//	pgx.Connect(ctx, p.URL(server.URL("postgres")))
//
// The server itself makes each error: the proxy sends a statement that the server cannot parse in place
// of the failing one, and changes the code in the answer. So everything that follows is right: the
// transaction is aborted, the rest of the pipeline is skipped up to its Sync, and ReadyForQuery has the
// right status. A refused COMMIT is sent as a ROLLBACK first. A COMMIT that is done but reported as
// failed is done and then followed by the failing statement.
//
// The client's messages are held back until one that asks for an answer (Sync, Flush, Query); together
// they are a trip. At most one statement of a trip fails.
//
// Report adds to the server's parameters, so that the server can pass for another kind.
//
// CutAll ends all connections at once. SilenceAll keeps them open, but passes nothing on any more.
//
// TLS is refused ('N'), and clients that accept this continue in plain text. Passwords and cancel
// requests pass through.
package pgproxy
