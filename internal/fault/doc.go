// Package fault is the one closed set of error kinds of cellgate.
//
// Every error that leaves a package towards a caller who must act on it is an *Error with a Kind. Only
// internal/rpc maps kinds to gRPC codes and HTTP statuses and back, from one table. An error without a
// kind is an internal error, and is shown as INTERNAL without its text.
//
// The package imports the standard library only, so that the shard contract can
// use it.
package fault
