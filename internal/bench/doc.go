// Package bench loads a gateway through its public gRPC API and measures it: a
// closed loop of callers, each of which selects, waits for the answer, and
// selects again. A selection counts when its claim is durable, since only then
// does the gateway answer.
//
// It also reads CPU profiles: stages.go says which function belongs to which
// stage of a request's life, profile.go reads the format. Load that arrives
// whatever the answers take is loadtest's, not this package's.
package bench
