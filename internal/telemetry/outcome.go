package telemetry

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
)

// outcomeOf names the outcome of a call: OK, the kind of the error, or that the caller left.
func outcomeOf(err error) string {
	if err == nil {
		return OK
	}
	var e *fault.Error
	if errors.As(err, &e) {
		return outcomeOfKind(e.Kind)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return Deadline
	}
	switch s, ok := status.FromError(err); {
	case !ok:
		return string(fault.Internal)
	case s.Code() == codes.Canceled:
		return Canceled
	case s.Code() == codes.DeadlineExceeded:
		return Deadline
	}
	return outcomeOfKind(fault.KindOf(rpc.FromStatus(err)))
}

// outcomeOfKind is the outcome of a refusal with a kind; OK for "".
func outcomeOfKind(refused fault.Kind) string {
	if refused == "" {
		return OK
	}
	return inList(labelOutcome, string(refused))
}

// messageOf is an error's text without its causes: traces may leave the operator's systems.
func messageOf(err error) string {
	var e *fault.Error
	if errors.As(err, &e) && e.Kind != fault.Internal {
		return e.Message
	}
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return outcomeOf(err)
}
