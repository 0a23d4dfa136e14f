// Package mariatest gives tests a MariaDB server of their own, like pgtest with PostgreSQL.
//
// A server is a new data folder in a temporary folder, on a free loopback port. It is never a server
// that runs already. One server serves a test package:
//
//	func TestMain(m *testing.M) { os.Exit(mariatest.StopShared(m.Run())) }
//
//	func TestX(t *testing.T) {
//		url := mariatest.Start(t).NewDatabase(t)
//
// Tests that stop, kill or freeze a server get their own with New.
//
// Nothing is installed: if the server programs are missing, the test is skipped with a message. If the
// tests run as root, the servers run as nobody.
package mariatest
