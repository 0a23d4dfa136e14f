// Package norace is for tests that run without the race detector only: with it they would
// prove nothing more and take minutes, or its runtime crashes.
//
// A package names them in its TestMain; each begins with Skip:
//
//	func TestMain(m *testing.M) {
//		norace.LeaveOut("TestX")
//		os.Exit(m.Run())
//	}
//
//	func TestX(t *testing.T) {
//		norace.Skip(t, "it starts no goroutine")
//
// `make test` runs all tests with the detector, and of the packages that its Makefile
// lists those once more without it that were left out: CELLGATE_RAN_RACED says that the
// others ran.
package norace
