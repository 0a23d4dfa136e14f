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

// internalMessage is all a caller sees of a defect of ours.
const internalMessage = "internal error; the server's log has the details"

// ToStatus gives the wire form of an error; nil for nil. Context ends keep
// their codes. A status error passes through. An error without a kind is shown
// as INTERNAL, without its text; so are the causes of kinds.
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
		if s, ok := status.FromError(err); ok {
			return s
		}
		e = &fault.Error{Kind: fault.Internal, Message: internalMessage}
	}
	message := e.Message
	if e.Kind == fault.Internal {
		message = internalMessage
	}
	details := []protoadapt.MessageV1{protoadapt.MessageV1Of(&errdetails.ErrorInfo{
		Reason: string(e.Kind),
		Domain: Domain,
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

// FromStatus gives the *fault.Error a status stands for; nil for nil and OK. An
// error that is no status is returned as it is. A status without our ErrorInfo
// gets the kind nearest to its code, and the status as its cause.
func FromStatus(err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	if s.Code() == codes.OK {
		return nil
	}
	e := &fault.Error{Kind: kindOf(s.Code()), Message: s.Message()}
	ours := false
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == Domain && slices.Contains(fault.Kinds(), fault.Kind(d.GetReason())) {
				e.Kind, ours = fault.Kind(d.GetReason()), true
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
	if !ours {
		e.Cause = err
	}
	return e
}
