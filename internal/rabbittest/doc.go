// Package rabbittest gives tests a RabbitMQ broker of their own, as mariatest does a
// MariaDB.
//
// A broker is a node of its own name and data folder, on free loopback ports, with its
// own port mapper (epmd) and cookie; it never is one that runs already. One broker serves
// a test package:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(rabbittest.Stop)) }
//
//	func TestX(t *testing.T) {
//		url := rabbittest.Start(t).URL()
//
// Nothing is installed here: where there is no broker the test is skipped, and says so.
// Where the tests run as root the brokers run as nobody.
package rabbittest
