// Package telemetry is what a process tells of itself: Prometheus metrics,
// OpenTelemetry traces, and trace ids in the log.
//
// names.go is the only place of the names and labels of metrics, spans and
// attributes; docs/reference/telemetry.md is generated from it. The other packages see
// typed handles (Gateway, Cell, Agent) whose methods say what happened, and
// neither Prometheus nor OpenTelemetry. A nil handle takes everything and does
// nothing.
//
// Telemetry fails open. Nothing here waits, returns an error to a request or
// grows without a bound: a span that cannot be kept or sent is dropped and
// counted. Labels come from closed lists or from the process's configuration,
// never from requests or hosts.
//
// Without a sampled trace a request costs the metrics alone: a span is started
// only under a sampled parent, or at the door by the configured ratio.
package telemetry
