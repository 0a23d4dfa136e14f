package config

import (
	"strings"
	"testing"
)

func TestTelemetryIsChecked(t *testing.T) {
	for flags, want := range map[string]string{
		"telemetry.traces=zipkin":                                                 `telemetry.traces: "zipkin" is none of [none otlp file]`,
		"telemetry.traces=file":                                                   "telemetry.file: must be set",
		"telemetry.traces=otlp telemetry.endpoint=host:4317":                      `"host:4317" is not a URL like http://host:4317`,
		"telemetry.traces=otlp telemetry.endpoint=http://host":                    "is not a URL like http://host:4317",
		"telemetry.traces=otlp telemetry.endpoint=ftp://host:1":                   "is not a URL like http://host:4317",
		"telemetry.traces=otlp telemetry.ratio=1.5":                               "telemetry.ratio: 1.5 is not between 0 and 1",
		"telemetry.traces=otlp telemetry.ratio=NaN":                               "telemetry.ratio",
		"telemetry.ratio=0.5":                                                     "is of use with telemetry.traces otlp or file only",
		"agent.metrics=0.0.0.0:1":                                                 "agent.metrics: 0.0.0.0:1 is not a loopback address",
		"cell.metrics=0.0.0.0:1":                                                  "cell.metrics: 0.0.0.0:1 is not a loopback address: set cell.tls.cert and cell.tls.key for TLS, and set cell.tls.client_ca or cell.tls.tokens to know the callers; or give --insecure",
		"cell.metrics=0.0.0.0:1 cell.tls.cert=c cell.tls.key=k":                   "cell.metrics: 0.0.0.0:1 is not a loopback address: set cell.tls.client_ca or cell.tls.tokens to know the callers",
		"cell.metrics=0.0.0.0:1 cell.tls.cert=c cell.tls.key=k cell.tls.tokens=t": "",
		"agent.metrics=x":                                                         `agent.metrics: "x" is not an address`,
		"agent.metrics=0.0.0.0:1 agent.insecure=true":                             "",
		"telemetry.traces=otlp telemetry.endpoint=https://collector:4317":         "",
		"telemetry.traces=file telemetry.file=x telemetry.ratio=1":                "",
		"agent.metrics=127.0.0.1:0":                                               "",
	} {
		section, given := "agent", map[string]string{"agent.cell": "c", "agent.replicas": "127.0.0.1:1"}
		if strings.HasPrefix(flags, "cell.") {
			section, given = "cell", map[string]string{"cell.name": "c", "cell.uuid": "c0000000-0000-4000-8000-000000000001", "cell.data": "d"}
		}
		for f := range strings.FieldsSeq(flags) {
			key, value, _ := strings.Cut(f, "=")
			given[key] = value
		}
		_, err := Load(section, Source{Flags: given})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flags, err, want)
		}
	}
	c, err := Load("agent", Source{
		Env:   []string{"CELLGATE_TELEMETRY_TRACES=otlp", "CELLGATE_TELEMETRY_RATIO=0.25"},
		Flags: map[string]string{"agent.cell": "c", "agent.replicas": "127.0.0.1:1"},
	})
	if err != nil || c.Telemetry.Ratio != 0.25 || c.Telemetry.Traces != "otlp" {
		t.Errorf("from the environment: %+v, %v", c.Telemetry, err)
	}
	_, err = Load("agent", Source{Env: []string{"CELLGATE_TELEMETRY_RATE=1"}})
	if err == nil || !strings.Contains(err.Error(), "CELLGATE_TELEMETRY_RATE") {
		t.Errorf("an unknown variable: %v", err)
	}
}
