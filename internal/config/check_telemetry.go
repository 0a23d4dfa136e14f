package config

import (
	"net/url"
)

func (l *loader) checkTelemetry(t Telemetry) {
	switch t.Traces {
	case "otlp":
		u, err := url.Parse(t.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || CheckAddress(u.Host) != nil || u.Path != "" {
			l.bad("telemetry.endpoint", "%q is not a URL like http://host:4317", t.Endpoint)
		}
	case "file":
		l.needed("telemetry.file", t.File)
	}
	if t.Ratio > 0 && t.Traces == "none" {
		l.bad("telemetry.ratio", "is of use with telemetry.traces otlp or file only")
	}
}

// metrics checks an address of metrics, "" for none. lacks says what is missing for TLS and
// authentication, "" for nothing.
func (l *loader) metrics(path, value string, insecure bool, lacks string) {
	if value == "" {
		return
	}
	host, _, err := splitAddress(value, 0)
	switch {
	case err != nil:
		l.bad(path, "%v", err)
	case !insecure && lacks != "" && !IsLoopback(host):
		l.bad(path, "%s is not a loopback address: %s; or give --insecure to let anyone who reaches it read the metrics", value, lacks)
	}
}
