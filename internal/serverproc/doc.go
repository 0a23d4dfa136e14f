// Package serverproc runs the servers that tests start: not as root, ending with the tests, and frozen
// if a test asks for that.
package serverproc
