// Package limits has the bounds of values that one part takes at its start and
// another part checks with every request: both must know the same ones.
package limits
