// Package proposingtest is the gateway's side of the private API for tests of who answers:
// it writes queries and reads proposals.
package proposingtest
