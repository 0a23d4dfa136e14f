// Package rest serves the gateway's API as REST: it turns HTTP requests into calls of the
// gateway's own gRPC server, and errors into JSON.
//
//	handler.go  the paths
//	call.go     what is checked before a body is read: role, parameters, admission
//	body.go     JSON bodies, and which field of a bad one is wrong
//	scan.go     bounds on JSON that is not decoded yet
//	error.go    the body of every error
package rest
