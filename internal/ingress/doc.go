// Package ingress bounds what callers make a process hold: connections, and bytes of requests
// that are being received or worked on.
//
// A connection with HTTP/2 is metered: the length at the beginning of each gRPC message is
// charged before the server reads the message, and released when the message is there, when
// its stream or connection ends. A message that cannot be charged is refused. What a stream
// may hold besides is its flow control window. The body of a plain HTTP request is charged
// before it is read.
//
// Invariants, each with its test: a caller never holds more than Limits.CallerBytes
// (TestMeter_ManyUnfinishedMessages_CallerBound), all together never more than Limits.Bytes
// (TestBytes_Total_Bound), strangers never more than strangerBytes
// (TestMeter_Stranger_SmallBound), and nothing stays charged after a connection ended.
package ingress
