// Package limits has the bounds of values that two parts check, one often at its start and the other with every
// request: both must use the same bounds.
package limits
