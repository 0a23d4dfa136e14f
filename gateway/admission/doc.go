// Package admission decides which calls a gateway begins. A Queue holds the calls of one
// kind, so a flood of one kind does not cause refusals of another.
//
// A call passes a queue in two steps. Enter gives it a place, or refuses it. Enter needs only
// the caller and the deadline, so it runs before the request is read. Begin waits for the
// call's turn. An adaptive limiter (failsafe-go) derives the number of calls that run at once
// from how long they take. As many may wait.
//
// When all places are taken, a caller with less than its fair share of them still gets one
// (Queue.admits). The package knows neither gRPC nor what a call does.
package admission
