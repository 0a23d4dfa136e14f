// Package security decides who may call what. A caller proves its identity by a client certificate or a
// bearer token. Either gives an Identity with one Role, and access.go says which role may call which
// method. A method without a row there is denied.
//
// A Server is the security of a process's incoming calls: TLS, known callers, and one admission for
// every call, by gRPC or by REST through the connection in memory. A Client is that of its outgoing
// calls. Both reload their files while they run. New content applies from the next handshake and the
// next call, on open connections, too. If a file cannot be read, the old content stays in force.
//
// A Server without files admits everybody. Configuration allows that only on loopback addresses, or
// with --insecure.
package security
