package rpc

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
)

// internalMessage is all that a caller sees of an internal error.
const internalMessage = "internal error; the server's log has the details"

// ToStatus returns the wire form of an error; nil for nil. Ends of contexts keep their codes, without
// ErrorInfo, because the caller ended the call. A status of cellgate passes through; a foreign one is
// converted as in FromStatus, without its text. An error without a kind becomes INTERNAL, without its
// text. Causes are never sent.
func ToStatus(err error) *status.Status {
	if err == nil {
		return nil
	}
	var e *fault.Error
	if !errors.As(err, &e) {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return status.New(codes.DeadlineExceeded, "the deadline passed before the answer was there")
		case errors.Is(err, context.Canceled):
			return status.New(codes.Canceled, "the caller gave up")
		}
		s, ok := status.FromError(err)
		switch {
		case !ok:
			e = &fault.Error{Kind: fault.Internal, Message: internalMessage}
		case s.Code() == codes.OK:
			return s
		case s.Code() == codes.Unimplemented:
			return status.New(codes.Unimplemented, "this server does not serve the method")
		default:
			if e, ok = readOurs(s); ok {
				return s
			}
			e = foreign(s, err)
		}
	}
	message := e.Message
	if e.Kind == fault.Internal {
		message = internalMessage
	}
	details := []protoadapt.MessageV1{protoadapt.MessageV1Of(&errdetails.ErrorInfo{
		Reason: string(e.Kind), Domain: Domain, Metadata: e.Metadata,
	})}
	if len(e.Fields) > 0 {
		bad := &errdetails.BadRequest{}
		for _, f := range e.Fields {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field: f.Path, Description: f.Problem,
			})
		}
		details = append(details, protoadapt.MessageV1Of(bad))
	}
	if e.RetryAfter > 0 {
		details = append(details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)}))
	}
	if m, ok := e.Detail.(proto.Message); ok && m != nil {
		details = append(details, protoadapt.MessageV1Of(m))
	}
	s := status.New(Code(e.Kind), message)
	with, detailErr := s.WithDetails(details...)
	if detailErr != nil {
		// Only an OK status or a message that cannot be marshalled fails here.
		return status.New(codes.Internal, internalMessage)
	}
	return with
}

// FromStatus returns the *fault.Error for a status; nil for nil and OK. An error that is no status, or
// that already has a kind, is returned unchanged. A foreign status, without cellgate's ErrorInfo, gets
// the nearest kind and a message of cellgate; the status itself becomes the cause.
func FromStatus(err error) error {
	if err == nil {
		return nil
	}
	var e *fault.Error
	s, ok := status.FromError(err)
	if !ok || errors.As(err, &e) {
		return err
	}
	if s.Code() == codes.OK {
		return nil
	}
	if e, ok := readOurs(s); ok {
		return e
	}
	return foreign(s, err)
}

// readOurs decodes a status with cellgate's ErrorInfo.
func readOurs(s *status.Status) (e *fault.Error, ours bool) {
	e = &fault.Error{Message: s.Message()}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == Domain && slices.Contains(fault.Kinds(), fault.Kind(d.GetReason())) {
				e.Kind, e.Metadata, ours = fault.Kind(d.GetReason()), d.GetMetadata(), true
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Fields = append(e.Fields, fault.Field{Path: v.GetField(), Problem: v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		case proto.Message:
			e.Detail = d
		}
	}
	return e, ours
}
