package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// newOTLP makes an exporter that connects at its first export. It does not retry: spans that a
// collector does not accept in time are dropped.
func newOTLP(endpoint string) (sdktrace.SpanExporter, error) {
	e, err := otlptracegrpc.New(context.Background(),
		otlptracegrpc.WithEndpointURL(endpoint),
		otlptracegrpc.WithTimeout(exportWithin),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: false}),
	)
	if err != nil {
		return nil, fmt.Errorf("exporter of traces to %s: %w", endpoint, err)
	}
	return e, nil
}
