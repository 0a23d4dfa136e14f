// Package suggest finds what was meant by a name that is not there.
package suggest
