// Package rpc is the communication between cellgate's processes: servers and clients of gRPC with one
// form of errors, one validation and one set of limits.
//
// table.go is the one table from error kinds to gRPC codes and HTTP statuses.
// A *fault.Error that a handler returns is sent as a status with ErrorInfo
// (domain "cellgate", reason = the kind) and typed details, and decoded back to
// an equal *fault.Error by the client's interceptors.
package rpc
