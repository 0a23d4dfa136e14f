// Package telemetry is the telemetry of a process: Prometheus metrics, OpenTelemetry traces, and trace
// ids in the log.
//
// names.go is the only place with the names and labels of metrics, spans and attributes;
// docs/reference/telemetry.md is generated from it. Other packages see neither Prometheus nor
// OpenTelemetry. They see typed handles (Gateway, Cell, Agent), whose methods record events. The
// methods of a zero handle do nothing.
//
// Telemetry fails open. Nothing here blocks, returns an error to a request or grows without a bound: a
// span that cannot be kept or sent is dropped. Labels come from closed lists or from the
// process's configuration, never from requests or hosts.
//
// A request without a sampled trace costs only the metrics. Spans are started only under a sampled
// parent, or where a request enters the process, by the configured ratio.
package telemetry
