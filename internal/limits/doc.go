// Package limits has the bounds of values that one part checks at its start and another part with every
// request: both must use the same bounds.
package limits
