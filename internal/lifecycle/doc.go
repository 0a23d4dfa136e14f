// Package lifecycle runs the parts of a process together: it starts them in
// order, ends them all when a signal comes or one of them ends, stops them in
// the reverse order, and bounds how long that may take. It also opens listeners
// with errors that say what to change, and serves HTTP and gRPC as parts.
//
// Every goroutine it starts has ended when Run returns without ErrStuck.
package lifecycle
