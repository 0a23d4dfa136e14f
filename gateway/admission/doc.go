// Package admission decides which calls a gateway begins. A Queue holds the
// calls of one kind, so that a flood of one kind refuses none of another.
//
// A call passes a queue in two steps. Enter gives it a place, or refuses it: this
// needs nothing but who calls and the deadline, so that it comes before the request
// is read. Begin waits for its turn. How many calls run at once is found by an
// adaptive limiter (failsafe-go) from how long they take. As many may wait.
//
// When all places are taken, callers that have less than their fair share of them
// still get one (Queue.admits). The package knows neither gRPC nor what a call does.
package admission
