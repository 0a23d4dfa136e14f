package rpc

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellgate/internal/fault"
)

// foreign returns the error for a status that no cellgate server made: it comes from gRPC itself or
// from something in between. Its text (addresses, errors of the operating system, gRPC's own prefixes)
// is for the log and stays in Cause. The message has no subject, so that it can follow the name of a
// cell or an address.
func foreign(s *status.Status, err error) *fault.Error {
	return &fault.Error{Kind: kindOf(s.Code()), Message: plainly(s), Cause: err}
}

// ended are gRPC's texts for a connection that was established and broke. Any other UNAVAILABLE never
// had a connection.
var ended = []string{"error reading from server", "error reading server preface", "connection is draining", "closing transport", "transport is closing"}

// Unreachable reports whether an error means that gRPC could not make a connection: the call was not
// sent.
func Unreachable(err error) bool {
	s, ok := foreignStatus(err)
	return ok && s.Code() == codes.Unavailable && plainly(s) == unreachable
}

// Unserved reports whether an error means that the server does not know the call: it runs another
// version.
func Unserved(err error) bool {
	s, ok := foreignStatus(err)
	return ok && s.Code() == codes.Unimplemented
}

// TimedOut reports whether an error means that gRPC ended a call at its deadline.
func TimedOut(err error) bool {
	s, ok := foreignStatus(err)
	return ok && s.Code() == codes.DeadlineExceeded
}

// foreignStatus returns the status behind an error of foreign.
func foreignStatus(err error) (*status.Status, bool) {
	var e *fault.Error
	if !errors.As(err, &e) || e.Cause == nil {
		return nil, false
	}
	return status.FromError(e.Cause)
}

const unreachable = "could not be reached"

// foreignCodes maps a code to the nearest kind and its meaning; any other code means a defect of the
// server.
var foreignCodes = map[codes.Code]struct {
	kind  fault.Kind
	means string
}{
	codes.Unavailable:        {fault.CellUnavailable, unreachable},
	codes.DeadlineExceeded:   {fault.CellUnavailable, "did not answer in time"},
	codes.Canceled:           {fault.CellUnavailable, "was not waited for"},
	codes.Unimplemented:      {fault.CellUnavailable, "does not serve this call"},
	codes.ResourceExhausted:  {fault.Overloaded, "refused the call, or the answer is too large"},
	codes.InvalidArgument:    {fault.InvalidRequest, "refused the call as invalid"},
	codes.OutOfRange:         {fault.InvalidRequest, "refused the call as invalid"},
	codes.FailedPrecondition: {fault.Internal, "refused the call as invalid"},
	codes.NotFound:           {fault.NotFound, "does not have it"},
	codes.AlreadyExists:      {fault.AlreadyExists, "has it already"},
	codes.Aborted:            {fault.Contended, "aborted the call"},
	codes.Unauthenticated:    {fault.Unauthenticated, "does not know the caller"},
	codes.PermissionDenied:   {fault.PermissionDenied, "does not allow the call"},
}

// plainly describes a foreign status.
func plainly(s *status.Status) string {
	if s.Code() == codes.Unavailable && slices.ContainsFunc(ended, func(text string) bool { return strings.Contains(s.Message(), text) }) {
		return "closed the connection"
	}
	return cmp.Or(foreignCodes[s.Code()].means, "failed; the log has the cause")
}

func kindOf(c codes.Code) fault.Kind { return cmp.Or(foreignCodes[c].kind, fault.Internal) }
