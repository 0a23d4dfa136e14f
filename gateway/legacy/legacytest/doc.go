// Package legacytest makes Nova's own databases for tests: a cell's and the API's, with their
// real definitions, on a MariaDB or a PostgreSQL that the test started. It writes the rows
// that a test gives it, and runs no Nova.
package legacytest
