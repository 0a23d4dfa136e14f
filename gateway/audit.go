package gateway

import (
	"context"
	"log/slog"

	"cellgate/internal/fault"
	"cellgate/internal/security"
)

// logCaller logs a change of claims or facts by an authenticated caller, with its outcome. An
// operator's change is logged at INFO. Others are logged at DEBUG, since there are as many as
// instances. No attribute is secret.
func (g *Gateway) logCaller(ctx context.Context, method string, req any, err error) {
	who := security.FromContext(ctx)
	if who == nil {
		return
	}
	level := slog.LevelDebug
	if who.Role == security.Operator {
		level = slog.LevelInfo
	}
	if !g.log.Enabled(ctx, level) {
		return
	}
	attrs := append([]any{"method", method}, auditAttrs(ctx, err)...)
	if r, ok := req.(interface{ GetConsumerUuid() string }); ok {
		attrs = append(attrs, "consumer_uuid", r.GetConsumerUuid())
	}
	if r, ok := req.(interface{ GetClaimId() string }); ok {
		attrs = append(attrs, "claim_id", r.GetClaimId())
	}
	if r, ok := req.(interface{ GetToConsumer() string }); ok {
		attrs = append(attrs, "to_consumer", r.GetToConsumer())
	}
	if r, ok := req.(interface{ GetInstanceUuids() []string }); ok {
		attrs = append(attrs, "instances", len(r.GetInstanceUuids()), "first", r.GetInstanceUuids()[0])
	}
	if r, ok := req.(interface{ GetNamespace() string }); ok {
		attrs = append(attrs, "host_uuid", req.(interface{ GetHostUuid() string }).GetHostUuid(), "namespace", r.GetNamespace())
		g.log.Log(ctx, level, "a caller changed facts", attrs...)
		return
	}
	g.log.Log(ctx, level, "a caller changed claims", attrs...)
}

// auditAttrs gives the role, name and address of the caller, and the outcome of its call.
func auditAttrs(ctx context.Context, err error) []any {
	var attrs []any
	if who := security.FromContext(ctx); who != nil {
		attrs = append(attrs, "role", string(who.Role), "name", who.Name, "from", security.AddressOf(ctx))
	}
	outcome := "OK"
	switch {
	case ctx.Err() != nil && err != nil:
		outcome = "CANCELED"
	case err != nil:
		outcome = string(fault.KindOf(err))
	}
	return append(attrs, "outcome", outcome)
}

// audit logs what an operator did, or tried.
func (g *Gateway) audit(ctx context.Context, what string, err error, attrs ...any) {
	g.log.InfoContext(ctx, what, append(attrs, auditAttrs(ctx, err)...)...)
}

// whoAsks names the caller for a cell's audit log.
func whoAsks(ctx context.Context) string {
	if id := security.FromContext(ctx); id != nil {
		return id.Name
	}
	return "an operator"
}
