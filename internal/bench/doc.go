// Package bench loads a gateway through its public gRPC API and measures it: a
// closed loop of callers, each of which selects, waits for the answer, and
// selects again. A selection counts when its claim is durable, since only then
// does the gateway answer.
//
// Open-loop load, which does not wait for answers, is in loadtest, not in this package.
package bench
