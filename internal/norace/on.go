//go:build race

package norace

// On says that the race detector is on.
const On = true
