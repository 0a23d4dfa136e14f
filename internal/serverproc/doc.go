// Package serverproc runs the servers that tests start: as somebody who is not
// root, ending with the tests, and frozen when a test says so.
package serverproc
