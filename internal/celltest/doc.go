// Package celltest gives tests of those who call a cell a real one: in the process, its
// shard in memory, reached by gRPC. It is for tests that need no second replica, no restart
// and no clock of their own.
package celltest
