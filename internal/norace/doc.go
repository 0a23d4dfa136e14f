// Package norace is for tests that run only without the race detector: with it they prove nothing more
// and take minutes, or its runtime crashes.
//
// A package names these tests in its TestMain, and each begins with Skip:
//
//	func TestMain(m *testing.M) {
//		norace.LeaveOut("TestX")
//		os.Exit(m.Run())
//	}
//
//	func TestX(t *testing.T) {
//		norace.Skip(t, "it starts no goroutine")
//
// `make test` runs all tests with the detector. For the packages that its Makefile lists, it then runs
// the skipped tests once more without it: CELLGATE_RAN_RACED says that the others ran.
package norace
