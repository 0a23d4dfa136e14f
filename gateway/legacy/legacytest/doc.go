// Package legacytest makes Nova's own databases for tests: a cell's and the API's,
// with their real definitions, on a MariaDB or a PostgreSQL that the test started.
//
// It is not a Nova: it writes the rows that a test gives it, with the real columns.
// Proxy cuts and delays connections to a server.
package legacytest
