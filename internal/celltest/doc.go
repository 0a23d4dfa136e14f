// Package celltest gives tests a real cell: in the process, with its shard in memory, reached by gRPC.
// An interceptor can inject faults between the caller and the cell. It is for tests that need no restart.
package celltest
