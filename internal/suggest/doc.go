// Package suggest finds the known name that was probably meant by an unknown one.
package suggest
