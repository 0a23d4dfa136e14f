package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
)

// httpError is the body of every error, cellgate.v1.Error in JSON:
//
//	{"code": 3,                    the gRPC code's number
//	 "reason": "INVALID_REQUEST",  the kind, from the closed list
//	 "message": "…",               for people
//	 "details": [{"@type": "type.googleapis.com/…", …}]}
//
// details are those of the gRPC status: google.rpc.ErrorInfo always, google.rpc.BadRequest
// with the fields of INVALID_REQUEST, google.rpc.RetryInfo with OVERLOADED (and the header
// Retry-After, in seconds), cellgate.v1.NoValidHost with NO_VALID_HOST.
//
// If the caller ended the call, there is no kind and there are no details. The reason is then
// the name of the gRPC code: DEADLINE_EXCEEDED (504) if the caller's deadline passed,
// CANCELLED (499) if the caller went away.
//
// The HTTP status follows from the reason (internal/rpc), with two exceptions: 413 for a body
// that is too large (INVALID_REQUEST, field "body"), and 405 for a method that a path does
// not have (INVALID_REQUEST; the header Allow has the methods of the path).
type httpError struct {
	Code    int32             `json:"code"`
	Reason  string            `json:"reason"`
	Message string            `json:"message"`
	Details []json.RawMessage `json:"details"`
}

// handleError answers with the error of a call, or of a request that could not become a call.
func (a *api) handleError(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	if b, ok := r.Body.(*body); ok && b.bad != nil {
		a.unread(ctx, b.bad)
		code := rpc.HTTPStatus(b.bad.Kind)
		var large *http.MaxBytesError
		if errors.As(b.bad, &large) {
			code = http.StatusRequestEntityTooLarge
		}
		writeFault(w, code, b.bad)
		return
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		writeEnded(w, 499, "CANCELLED", context.Canceled)
		return
	case rpc.TimedOut(err):
		// The gateway called itself, with no deadline but the caller's.
		writeEnded(w, http.StatusGatewayTimeout, "DEADLINE_EXCEEDED", context.DeadlineExceeded)
		return
	}
	read := unreadable(r, err)
	if read != err {
		a.unread(ctx, read)
	}
	err = read
	var e *fault.Error
	if !errors.As(rpc.FromStatus(err), &e) {
		a.Log.ErrorContext(ctx, "REST request failed", "path", r.URL.Path, "error", err)
		e = fault.Wrap(fault.Internal, err, "internal error")
	}
	writeFault(w, rpc.HTTPStatus(e.Kind), e)
}

// unread counts a request that did not become a call.
func (a *api) unread(ctx context.Context, err error) {
	method, _ := runtime.RPCMethod(ctx)
	a.Telemetry.Unread(method, string(fault.KindOf(err)))
}

// unreadable replaces the error of a request that grpc-gateway could not read by this API's
// own, and returns any other error unchanged.
func unreadable(r *http.Request, err error) error {
	var routed *runtime.HTTPStatusError
	var e *fault.Error
	switch s, ok := status.FromError(err); {
	case errors.As(err, &e):
		return err
	case errors.As(err, &routed):
		bad := fault.New(fault.InvalidRequest, "%q is not a path", r.URL.Path)
		bad.Cause = err
		return bad
	case ok && s.Code() == codes.InvalidArgument && strings.Contains(s.Message(), "grpc-timeout"):
		bad := fault.Invalid(timeoutHeader, "is not a timeout: digits and a unit of H, M, S, m, u, n, as in 500m")
		bad.Cause = err
		return bad
	case ok && s.Code() == codes.InvalidArgument:
		// Parameters and bodies are already checked, so a header is wrong.
		name := "Content-Type"
		if m := binaryHeader.FindStringSubmatch(s.Message()); m != nil {
			name = m[1]
		}
		bad := fault.Invalid(name, "this header cannot be read")
		bad.Cause = err
		return bad
	}
	return err
}

// binaryHeader matches grpc-gateway's error for a header that is not base64. The only other
// header that it reads is the Content-Type of a form.
var binaryHeader = regexp.MustCompile(`invalid binary header (\S+): `)

// timeoutHeader bounds a call, as grpc-timeout does.
const timeoutHeader = "Grpc-Timeout"

// WriteError answers a request with an error as the REST API does.
func WriteError(w http.ResponseWriter, err error) {
	writeFault(w, rpc.HTTPStatus(fault.KindOf(err)), err)
}

// writeFault answers with an error; one that is no *fault.Error is shown as INTERNAL.
func writeFault(w http.ResponseWriter, code int, err error) {
	var e *fault.Error
	if !errors.As(err, &e) {
		e = fault.Wrap(fault.Internal, err, "internal error")
	}
	s := rpc.ToStatus(e)
	out := httpError{Code: int32(s.Code()), Reason: string(e.Kind), Message: s.Message(), Details: detailsOf(s)}
	if e.Kind == fault.Unauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="cellgate"`)
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(e.RetryAfter.Seconds()))))
	}
	writeError(w, code, out)
}

// writeEnded answers a call that its caller ended.
func writeEnded(w http.ResponseWriter, code int, reason string, end error) {
	s := rpc.ToStatus(end)
	writeError(w, code, httpError{Code: int32(s.Code()), Reason: reason, Message: s.Message(), Details: []json.RawMessage{}})
}

func writeError(w http.ResponseWriter, code int, e httpError) {
	// Whole numbers, texts and JSON always marshal.
	text, _ := json.Marshal(e)
	writeJSON(w, code, text)
}

func detailsOf(s *status.Status) []json.RawMessage {
	out := []json.RawMessage{}
	for _, d := range s.Proto().GetDetails() {
		text, err := (protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}).Marshal(d)
		if err != nil {
			// This build does not know the type, so only its name is shown.
			text, _ = json.Marshal(map[string]string{"@type": d.GetTypeUrl()})
		}
		out = append(out, text)
	}
	return out
}

func writeJSON(w http.ResponseWriter, code int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	// An error means that the caller is gone.
	_, _ = w.Write(text)
}
