//go:build !race

package systemtest

// raced: the tests run with the race detector.
const raced = false
