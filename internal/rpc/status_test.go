package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestTableHasEveryKind(t *testing.T) {
	for _, k := range fault.Kinds() {
		if _, ok := table[k]; !ok {
			t.Errorf("kind %s has no gRPC code and HTTP status", k)
		}
	}
	if len(table) != len(fault.Kinds()) {
		t.Errorf("the table has %d kinds, fault has %d", len(table), len(fault.Kinds()))
	}
}

// The contract of the public API, row by row.
func TestTableIsThePublicContract(t *testing.T) {
	want := map[fault.Kind]struct {
		code codes.Code
		http int
	}{
		fault.InvalidRequest:   {codes.InvalidArgument, 400},
		fault.NoValidHost:      {codes.FailedPrecondition, 409},
		fault.CellUnavailable:  {codes.Unavailable, 503},
		fault.Contended:        {codes.Aborted, 409},
		fault.Overloaded:       {codes.ResourceExhausted, 429},
		fault.NotFound:         {codes.NotFound, 404},
		fault.AlreadyExists:    {codes.AlreadyExists, 409},
		fault.StaleGeneration:  {codes.Aborted, 409},
		fault.Unauthenticated:  {codes.Unauthenticated, 401},
		fault.PermissionDenied: {codes.PermissionDenied, 403},
		fault.ClaimExpired:     {codes.FailedPrecondition, 409},
		fault.ClaimRejected:    {codes.FailedPrecondition, 409},
		fault.OutcomeUnknown:   {codes.Unavailable, 503},
	}
	for k, w := range want {
		if Code(k) != w.code || HTTPStatus(k) != w.http {
			t.Errorf("%s is %s/%d, the contract says %s/%d", k, Code(k), HTTPStatus(k), w.code, w.http)
		}
	}
	if Code("NO_SUCH_KIND") != codes.Internal || HTTPStatus("NO_SUCH_KIND") != http.StatusInternalServerError {
		t.Error("an unknown kind is not INTERNAL")
	}
}

func TestFaultSurvivesTheWire(t *testing.T) {
	for _, k := range fault.Kinds() {
		in := &fault.Error{
			Kind: k, Message: "what happened",
			Fields:     []fault.Field{{Path: "request_spec.flavor.vcpus", Problem: "must be at least 0"}},
			RetryAfter: 1500 * time.Millisecond,
			Metadata:   map[string]string{"cells": "cell1,cell2"},
			Detail:     &cellgatev1.NoValidHost{Hosts: 3},
			Cause:      errors.New("password=hunter2"),
		}
		wire := ToStatus(fmt.Errorf("outer: %w", in)).Err()
		var out *fault.Error
		if !errors.As(FromStatus(wire), &out) {
			t.Fatalf("%s came back as %v", k, FromStatus(wire))
		}
		wantMessage := in.Message
		if k == fault.Internal {
			wantMessage = internalMessage
		}
		detail, _ := out.Detail.(*cellgatev1.NoValidHost)
		if out.Kind != k || out.Message != wantMessage || !reflect.DeepEqual(out.Fields, in.Fields) || !reflect.DeepEqual(out.Metadata, in.Metadata) ||
			out.RetryAfter != in.RetryAfter || !proto.Equal(detail, in.Detail.(*cellgatev1.NoValidHost)) || out.Cause != nil {
			t.Errorf("%s came back as %+v", k, out)
		}
		if got := fmt.Sprint(ToStatus(in).Proto()); strings.Contains(got, "hunter2") {
			t.Errorf("%s shows its cause: %s", k, got)
		}
	}
}

func TestErrorsWithoutAKind(t *testing.T) {
	for _, c := range []struct {
		in   error
		code codes.Code
	}{
		{errors.New("pq: secret"), codes.Internal},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{fmt.Errorf("reading: %w", context.Canceled), codes.Canceled},
		{status.Error(codes.NotFound, "x"), codes.NotFound},
	} {
		s := ToStatus(c.in)
		if s.Code() != c.code {
			t.Errorf("%v became %s, want %s", c.in, s.Code(), c.code)
		}
		if strings.Contains(s.Message(), "secret") {
			t.Errorf("the text of an unknown error left: %s", s.Message())
		}
	}
	if ToStatus(nil) != nil || FromStatus(nil) != nil || FromStatus(status.New(codes.OK, "").Err()) != nil {
		t.Error("nil is not nil")
	}
	plain := errors.New("plain")
	if got := FromStatus(plain); got != plain { //nolint:errorlint // identity is the contract.
		t.Errorf("an error that is no status became %v", got)
	}
	if k := fault.KindOf(FromStatus(status.Error(codes.Unavailable, "connection refused"))); k != fault.CellUnavailable {
		t.Errorf("a foreign UNAVAILABLE is %s", k)
	}
	foreign := FromStatus(status.Error(codes.Unavailable, "connection refused"))
	if errors.Unwrap(foreign) == nil {
		t.Error("a foreign status is not kept as the cause")
	}
}

// The text of a foreign status comes from a driver, so it stays in the cause.
func TestForeignStatusesKeepTheirTextToThemselves(t *testing.T) {
	const secret = `connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.1:9: connect: connection refused"`
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		in := status.Error(c, secret)
		var e *fault.Error
		if !errors.As(FromStatus(in), &e) {
			t.Fatalf("%s came back as %v", c, FromStatus(in))
		}
		if strings.Contains(e.Message, "desc") || e.Message == "" || !strings.Contains(e.Error(), "dial tcp") {
			t.Errorf("%s: message %q, for the log %q", c, e.Message, e.Error())
		}
		if out := ToStatus(fmt.Errorf("asking: %w", in)); strings.Contains(out.Message(), "desc") || out.Code() == codes.OK || out.Code() == codes.Unknown {
			t.Errorf("%s left as %v", c, out)
		}
	}
	wrapped := fault.Wrap(fault.NotFound, status.Error(codes.Unavailable, secret), "no claim")
	if got := FromStatus(wrapped); got != error(wrapped) { //nolint:errorlint // identity is the contract.
		t.Errorf("an error with a kind became that of its cause: %v", got)
	}
	for text, want := range map[string]string{
		secret:                              "could not be reached",
		"error reading from server: EOF":    "closed the connection",
		"the connection is draining":        "closed the connection",
		"name resolver error: no such host": "could not be reached",
	} {
		var e *fault.Error
		if !errors.As(FromStatus(status.Error(codes.Unavailable, text)), &e) || e.Message != want {
			t.Errorf("%q became %v, want %q", text, e, want)
		}
	}
}

// A client can set the fields of a oneof, not the oneof.
func TestValidateNamesTheFieldsOfAOneof(t *testing.T) {
	err := Validate(&cellgatev1.SelectDestinationsRequest{InstanceUuids: []string{instance}})
	var e *fault.Error
	if !errors.As(err, &e) || len(e.Fields) != 2 || e.Fields[0].Path != "request_spec" || e.Fields[1].Path != "nova_request_spec" {
		t.Errorf("no spec: %v", err)
	}
	err = Validate(&cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{{}}})
	if !errors.As(err, &e) || len(e.Fields) != 8 || e.Fields[0].Path != "ops[0].claim" {
		t.Errorf("no op: %v", err)
	}
}
