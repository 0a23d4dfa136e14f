// Package lifecycle runs the parts of a process together: it starts them in
// order, lets them drain when a signal comes (first they say so, then for a while
// nothing else changes), stops them in the reverse order, and bounds how long
// that may take. A part that ends stops the others at once. It also opens listeners
// with errors that say what to change, and serves HTTP and gRPC as parts.
//
// Every goroutine it starts has ended when Run returns without ErrStuck.
package lifecycle
