package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind names what went wrong, as the public API's ErrorInfo.reason.
type Kind string

// The kinds. Their gRPC codes, HTTP statuses and the advice to callers are in internal/rpc.
const (
	// InvalidRequest: the caller must change the request; Fields says which fields.
	InvalidRequest Kind = "INVALID_REQUEST"
	// NoValidHost: every host was considered and none passed.
	NoValidHost Kind = "NO_VALID_HOST"
	// CellUnavailable: a cell that the answer needs did not answer.
	CellUnavailable Kind = "CELL_UNAVAILABLE"
	// Contended: every attempt lost a race.
	Contended Kind = "CONTENDED"
	// Overloaded: refused to protect the system; RetryAfter says when to retry.
	Overloaded Kind = "OVERLOADED"
	// NotFound: the object that the request names does not exist.
	NotFound Kind = "NOT_FOUND"
	// AlreadyExists: the consumer already has a live claim.
	AlreadyExists Kind = "ALREADY_EXISTS"
	// StaleGeneration: the caller's version of a row is old.
	StaleGeneration Kind = "STALE_GENERATION"
	// Unauthenticated: no valid credential.
	Unauthenticated Kind = "UNAUTHENTICATED"
	// PermissionDenied: the credential does not allow the call.
	PermissionDenied Kind = "PERMISSION_DENIED"
	// ClaimExpired: the claim's lease ended, or it was released.
	ClaimExpired Kind = "CLAIM_EXPIRED"
	// ClaimRejected: the host refused the claim.
	ClaimRejected Kind = "CLAIM_REJECTED"
	// FailedPrecondition: the state of the object that the request names does not allow the call.
	FailedPrecondition Kind = "FAILED_PRECONDITION"
	// OutcomeUnknown: a write may or may not have happened.
	OutcomeUnknown Kind = "OUTCOME_UNKNOWN"
	// Gone: a kept table version is no longer available. It occurs only between gateway and cell, and
	// never reaches a caller.
	Gone Kind = "GONE"
	// Internal: a defect of cellgate.
	Internal Kind = "INTERNAL"
)

// Kinds lists every kind, for tables that must be complete.
func Kinds() []Kind {
	return []Kind{
		InvalidRequest, NoValidHost, CellUnavailable, Contended, Overloaded,
		NotFound, AlreadyExists, StaleGeneration, Unauthenticated,
		PermissionDenied, ClaimExpired, ClaimRejected, FailedPrecondition, OutcomeUnknown, Gone, Internal,
	}
}

// Field is one problem with one field of a request.
type Field struct {
	// Path is the field's path in the API's names: request_spec.flavor.vcpus.
	Path string
	// Problem says what is wrong with it and what would be right.
	Problem string
}

// Error is an error with a kind. Message is for people and safe to show to a caller; Cause is only for
// the log.
type Error struct {
	Kind    Kind
	Message string
	// Fields is set with InvalidRequest.
	Fields []Field
	// RetryAfter is set with Overloaded.
	RetryAfter time.Duration
	// Metadata has, for programs, the values that Message mentions: cells (names, separated by commas),
	// cell, claim_id, consumer_uuid, generation. Nil for none.
	Metadata map[string]string
	// Detail is a typed detail for the wire, a proto.Message; nil for none.
	Detail any
	Cause  error
}

// New makes an error of a kind.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes an error of a kind with a cause. Callers do not see the cause's text.
func Wrap(kind Kind, cause error, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// Invalid makes an InvalidRequest error about one field.
func Invalid(path, format string, args ...any) *Error {
	f := Field{Path: path, Problem: fmt.Sprintf(format, args...)}
	return &Error{Kind: InvalidRequest, Message: f.Path + ": " + f.Problem, Fields: []Field{f}}
}

// With adds an entry of Metadata and returns e; an empty value adds nothing.
func (e *Error) With(key, value string) *Error {
	if value == "" {
		return e
	}
	if e.Metadata == nil {
		e.Metadata = map[string]string{}
	}
	e.Metadata[key] = value
	return e
}

// mostFields bounds the fields that an error names, since it must fit into response headers. One more says how many
// others there are.
const mostFields = 32

// InvalidFields makes an InvalidRequest error about several fields; nil when
// there are none.
func InvalidFields(fields []Field) error {
	switch len(fields) {
	case 0:
		return nil
	case 1:
		return Invalid(fields[0].Path, "%s", fields[0].Problem)
	}
	e := &Error{Kind: InvalidRequest, Fields: fields}
	if more := len(fields) - mostFields; more > 1 {
		path := fields[0].Path
		if end := strings.IndexAny(path, ".["); end > 0 {
			path = path[:end]
		}
		e.Fields = append(fields[:mostFields:mostFields], Field{Path: path, Problem: fmt.Sprintf("and %d more fields", more)})
	}
	e.Message = fmt.Sprintf("%d fields are invalid; the first: %s: %s", len(fields), fields[0].Path, fields[0].Problem)
	return e
}

// Error gives the kind, the message and the cause, for logs.
func (e *Error) Error() string {
	s := string(e.Kind) + ": " + e.Message
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is an *Error of the same kind, so that
// errors.Is(err, &fault.Error{Kind: fault.NotFound}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind
}

// KindOf gives the kind of the outermost *Error in err's chain: "" for nil,
// Internal for an error without a kind.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}
