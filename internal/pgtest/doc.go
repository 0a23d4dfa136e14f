// Package pgtest gives tests a PostgreSQL server of their own.
//
// A server is a new cluster in a temporary folder that listens on a free loopback port. It is never a
// server that runs already. One server serves a test package:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(pgtest.Stop)) }
//
//	func TestX(t *testing.T) {
//		url := pgtest.Start(t).NewDatabase(t)
//
// Tests that stop, kill or configure a server get their own with New.
//
// Nothing is installed: if the server programs are missing, the test is skipped with a message.
// PostgreSQL refuses to run as root; then the servers run as the user postgres, whom Debian's package
// creates.
package pgtest
