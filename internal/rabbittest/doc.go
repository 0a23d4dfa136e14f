// Package rabbittest gives tests a RabbitMQ broker of their own, like mariatest with MariaDB.
//
// A broker is a node with its own name and data folder, on free loopback ports, with its own port
// mapper (epmd) and cookie. It is never a broker that runs already. One broker serves a test package:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(rabbittest.Stop)) }
//
//	func TestX(t *testing.T) {
//		url := rabbittest.Start(t).URL()
//
// Nothing is installed: if there is no broker, the test is skipped with a message. If the tests run as
// root, the brokers run as nobody.
package rabbittest
