package main

import (
	"cmp"
	"net"
	"net/http"

	"cellgate/gateway/rest"
	"cellgate/internal/config"
	"cellgate/internal/health"
	"cellgate/internal/lifecycle"
	"cellgate/internal/security"
	"cellgate/internal/telemetry"
)

// observe makes the process's telemetry. It comes before every part that uses it.
func (a *assembly) observe(c config.Telemetry, command string) error {
	b := buildOf()
	p, err := telemetry.New(telemetry.Traces{
		Exporter: c.Traces, Endpoint: c.Endpoint, Ratio: c.Ratio, File: c.File,
		Service: cmp.Or(c.Service, "cellgate-"+command),
	}, telemetry.Build{Version: b.Version, Revision: b.Revision}, a.log)
	if err != nil {
		return err
	}
	a.telemetry = p
	a.add(lifecycle.Part{Name: "telemetry", Run: p.Run})
	return nil
}

// listenMetrics opens the listener for metrics at addr. It gives nil for an empty one.
func (a *assembly) listenMetrics(addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	return a.listen(addr, "metrics")
}

// addMetrics serves the process's metrics and its health on l, to the callers that tls admits. It does
// nothing when l is nil.
func (a *assembly) addMetrics(l net.Listener, h *health.Monitor, tls *security.Server) {
	if l == nil {
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.telemetry.Handler())
	mux.HandleFunc("GET /healthz", h.ServeAlive)
	mux.HandleFunc("GET /readyz", h.ServeReady)
	web := tls.Near(tls.HTTP(mux, rest.WriteError), l.Addr(), rest.WriteError)
	a.add(lifecycle.HTTP("metrics", web, tls.Listener(l), tls.ErrorLog()))
	a.log.Info("metrics are served", "metrics", l.Addr().String())
}
