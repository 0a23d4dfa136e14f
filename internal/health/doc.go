// Package health reports whether a process works: named checks, each with its reason, form two answers.
// /healthz: the process is alive; if it is not, a restart helps. /readyz and the gRPC health service:
// the process accepts new work. A draining process is alive and not ready.
//
// The package does not know the checks.
package health
