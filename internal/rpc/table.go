package rpc

import (
	"net/http"

	"google.golang.org/grpc/codes"

	"cellgate/internal/fault"
)

// Domain is the domain of every ErrorInfo.
const Domain = "cellgate"

// mapping is the wire form of a kind, and whether a client that got it may repeat the same call
// unchanged.
type mapping struct {
	code   codes.Code
	http   int
	repeat bool
}

// table is complete: a test checks that it has every kind.
var table = map[fault.Kind]mapping{
	fault.InvalidRequest:     {codes.InvalidArgument, http.StatusBadRequest, false},
	fault.NoValidHost:        {codes.FailedPrecondition, http.StatusConflict, false},
	fault.CellUnavailable:    {codes.Unavailable, http.StatusServiceUnavailable, true},
	fault.Contended:          {codes.Aborted, http.StatusConflict, true},
	fault.Overloaded:         {codes.ResourceExhausted, http.StatusTooManyRequests, true},
	fault.NotFound:           {codes.NotFound, http.StatusNotFound, false},
	fault.AlreadyExists:      {codes.AlreadyExists, http.StatusConflict, false},
	fault.StaleGeneration:    {codes.Aborted, http.StatusConflict, false},
	fault.Unauthenticated:    {codes.Unauthenticated, http.StatusUnauthorized, false},
	fault.PermissionDenied:   {codes.PermissionDenied, http.StatusForbidden, false},
	fault.ClaimExpired:       {codes.FailedPrecondition, http.StatusConflict, false},
	fault.ClaimRejected:      {codes.FailedPrecondition, http.StatusConflict, false},
	fault.FailedPrecondition: {codes.FailedPrecondition, http.StatusConflict, false},
	fault.OutcomeUnknown:     {codes.Unavailable, http.StatusServiceUnavailable, true},
	fault.Gone:               {codes.Aborted, http.StatusConflict, false},
	fault.Internal:           {codes.Internal, http.StatusInternalServerError, false},
}

// Code gives the gRPC code of a kind.
func Code(k fault.Kind) codes.Code { return entry(k).code }

// HTTPStatus gives the HTTP status of a kind.
func HTTPStatus(k fault.Kind) int { return entry(k).http }

// MayRepeat reports whether the same call, with the same request_id, may be repeated after this kind.
func MayRepeat(k fault.Kind) bool { return entry(k).repeat }

func entry(k fault.Kind) mapping {
	if m, ok := table[k]; ok {
		return m
	}
	return table[fault.Internal]
}
