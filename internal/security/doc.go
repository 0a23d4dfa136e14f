// Package security decides who may call what. A caller proves who it is by a
// client certificate or by a bearer token; either gives an Identity with one
// Role; access.go says which role may call which method. A method without a row
// there is denied.
//
// A Server is the receiving end of a process: TLS, the callers it knows, and one
// admission for every call, whether it comes by gRPC, or by REST through the
// connection in memory. A Client is the calling end. Both read their files again
// while they run: new content counts from the next handshake and the next call,
// on open connections too; what cannot be read leaves the old content in force.
//
// A Server without files of its own admits everybody; configuration allows that
// on loopback addresses only, or by --insecure.
package security
