// Package rest serves the gateway's API as REST: it turns HTTP requests into calls of the
// gateway's own gRPC server, and errors into JSON.
//
//	handler.go  the paths
//	call.go     checks before a body is read: role, parameters, admission
//	body.go     JSON bodies, and the wrong field of a bad one
//	scan.go     bounds on JSON before it is decoded
//	error.go    the body of every error
package rest
