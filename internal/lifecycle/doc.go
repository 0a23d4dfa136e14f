// Package lifecycle runs the parts of a process together. It starts them in order and, after a signal,
// drains them: at first they only announce it. Then it stops them in the reverse order, within a time
// limit. If a part ends, the others stop at once. The package also opens listeners with errors that say
// what to change, and serves HTTP and gRPC as parts.
//
// Every goroutine it starts has ended when Run returns without ErrStuck.
package lifecycle
