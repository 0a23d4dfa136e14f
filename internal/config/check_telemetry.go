package config

import "net/url"

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
