package rpc

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellgate/internal/fault"
)

// foreign gives the error that a status stands for which is not ours: it comes
// from gRPC itself or from something in between. Its text (addresses, errors of
// the operating system, gRPC's own prefixes) is for the log and stays in Cause.
// The message has no subject, so that it can follow the name of a cell or an
// address.
func foreign(s *status.Status, err error) *fault.Error {
	return &fault.Error{Kind: kindOf(s.Code()), Message: plainly(s), Cause: err}
}

// ended are the texts of gRPC for a connection that was there and broke; every
// other UNAVAILABLE never had one.
var ended = []string{"error reading from server", "error reading server preface", "connection is draining", "closing transport", "transport is closing"}

// Unreachable reports whether an error is gRPC's own, of a connection that could
// not be made: the call was not sent.
func Unreachable(err error) bool {
	s, ok := foreignStatus(err)
	return ok && s.Code() == codes.Unavailable && plainly(s) == unreachable
}

// Unserved reports whether an error says that the server knows no such call: it
// runs another version.
func Unserved(err error) bool {
	s, ok := foreignStatus(err)
	return ok && s.Code() == codes.Unimplemented
}

// TimedOut reports whether an error is gRPC's own, of a call whose time was over.
func TimedOut(err error) bool {
	s, ok := foreignStatus(err)
	return ok && s.Code() == codes.DeadlineExceeded
}

// foreignStatus finds the status that foreign decoded.
func foreignStatus(err error) (*status.Status, bool) {
	var e *fault.Error
	if !errors.As(err, &e) || e.Cause == nil {
		return nil, false
	}
	return status.FromError(e.Cause)
}

const unreachable = "could not be reached"

// plainly says what a foreign status means.
func plainly(s *status.Status) string {
	switch s.Code() {
	case codes.Unavailable:
		for _, text := range ended {
			if strings.Contains(s.Message(), text) {
				return "closed the connection"
			}
		}
		return unreachable
	case codes.DeadlineExceeded:
		return "did not answer in time"
	case codes.Canceled:
		return "was not waited for"
	case codes.Unimplemented:
		return "does not serve this call"
	case codes.ResourceExhausted:
		return "refused the call, or the answer is too large"
	case codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition:
		return "refused the call as invalid"
	case codes.NotFound:
		return "does not have it"
	case codes.AlreadyExists:
		return "has it already"
	case codes.Aborted:
		return "aborted the call"
	case codes.Unauthenticated:
		return "does not know the caller"
	case codes.PermissionDenied:
		return "does not allow the call"
	default:
		return "failed; the log has the cause"
	}
}

// kindOf is the kind nearest to a code.
func kindOf(c codes.Code) fault.Kind {
	switch c {
	case codes.InvalidArgument, codes.OutOfRange:
		return fault.InvalidRequest
	case codes.NotFound:
		return fault.NotFound
	case codes.AlreadyExists:
		return fault.AlreadyExists
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unimplemented:
		return fault.CellUnavailable
	case codes.ResourceExhausted:
		return fault.Overloaded
	case codes.Aborted:
		return fault.Contended
	case codes.Unauthenticated:
		return fault.Unauthenticated
	case codes.PermissionDenied:
		return fault.PermissionDenied
	default:
		return fault.Internal
	}
}
