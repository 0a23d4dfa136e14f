// Package celltest gives tests a real cell: in the process, with its shard in memory, reached by gRPC.
// Faults can be injected between the caller and the cell. It is for tests that need no restart.
package celltest
