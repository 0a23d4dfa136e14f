// Package mariatest gives tests a MariaDB server of their own, as pgtest does a
// PostgreSQL.
//
// A server is a new data folder in a temporary one, on a free loopback port; it
// never is one that runs already. One server serves a test package:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(mariatest.Stop)) }
//
//	func TestX(t *testing.T) {
//		url := mariatest.Start(t).NewDatabase(t)
//
// Tests that stop, kill or freeze a server get their own with New.
//
// Nothing is installed here: where there are no server programs the test is
// skipped, and says so. Where the tests run as root the servers run as nobody.
package mariatest
