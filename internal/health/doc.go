// Package health is how a process says whether it works: named checks, each
// with its reason, joined into two answers. /healthz: the process is alive; a
// restart would help when it is not. /readyz and the gRPC health service: new
// work is welcome here. A process that drains is alive and not ready.
//
// It knows nothing of what is checked.
package health
