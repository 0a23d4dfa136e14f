// Package testlong keeps the tests that take long to `make test-long`. It runs all that
// `make test` runs, and these.
package testlong
