package rpc

import (
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// Health is the standard gRPC health service of a server: one state for the
// server ("") and for each of its services, by their full names.
type Health struct {
	server *Server
	health *health.Server
}

// ServeHealth adds the health service to a server, after the server's own services. The state is
// NOT_SERVING until Set.
func ServeHealth(s *Server) *Health {
	h := &Health{server: s, health: health.NewServer()}
	h.Set(false)
	healthpb.RegisterHealthServer(s, h.health)
	return h
}

// Set sets whether the server is ready for new calls. After Drain it does nothing.
func (h *Health) Set(ready bool) {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if ready {
		state = healthpb.HealthCheckResponse_SERVING
	}
	h.health.SetServingStatus("", state)
	for name := range h.server.GetServiceInfo() {
		if name != healthpb.Health_ServiceDesc.ServiceName {
			h.health.SetServingStatus(name, state)
		}
	}
}

// Drain sets NOT_SERVING permanently.
func (h *Health) Drain() { h.health.Shutdown() }
