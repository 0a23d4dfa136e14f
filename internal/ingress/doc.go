// Package ingress bounds what callers make a process hold: connections, and bytes of requests that are
// being received or processed.
//
// An HTTP/2 connection is metered. The length prefix of each gRPC message is charged before the server
// reads the message. The charge is released when the message is complete, or when its stream or
// connection ends. A message that cannot be charged is refused. Beyond that a stream holds at most its
// flow control window. The body of a plain HTTP request is charged before it is read.
//
// Invariants, each with its test: a caller never holds more than Limits.CallerBytes
// (TestMeter_ManyUnfinishedMessages_CallerBound), all together never more than Limits.Bytes
// (TestBytes_Total_Bound), strangers never more than strangerBytes
// (TestMeter_Stranger_SmallBound), and nothing stays charged after a connection ended.
package ingress
