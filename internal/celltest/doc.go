// Package celltest gives tests of those who call a cell a real one: in the process, its
// shard in memory, reached by gRPC. Faults can stand between the caller and the cell. It is
// for tests that need no restart.
package celltest
