//go:build !race

package simulation

// raced: the tests run with the race detector.
const raced = false
