// Package testlong reserves long tests for `make test-long`, which also runs all tests of `make test`.
package testlong
