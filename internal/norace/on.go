//go:build race

package norace

// On reports whether the race detector is on.
const On = true
