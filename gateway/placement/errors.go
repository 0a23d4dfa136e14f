package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"cellgate/internal/fault"
)

// Codes of errors, shown from microversion 1.23 on.
const (
	CodeInventoryInUse     = "placement.inventory.inuse"
	CodeConcurrentUpdate   = "placement.concurrent_update"
	CodeCannotDeleteParent = "placement.resource_provider.cannot_delete_parent"

	codeUndefined          = "placement.undefined_code"
	codeDuplicateName      = "placement.duplicate_name"
	codeProviderInUse      = "placement.resource_provider.inuse"
	codeProviderNotFound   = "placement.resource_provider.not_found"
	codeDuplicateParameter = "placement.query.duplicate_key"
	codeBadParameter       = "placement.query.bad_value"
	codeMissingParameter   = "placement.query.missing_value"

	// CodeAgentTree and CodeNoCell do not exist in Placement: an agent reports the tree; /cells/NAME names no cell.
	CodeAgentTree = "cellgate.agent_tree"
	CodeNoCell    = "cellgate.no_such_cell"

	codesSince version = 23
)

// apiError is an answer with an error status.
type apiError struct {
	status       int
	code, detail string
	// allow is the header Allow of a 405.
	allow string
	// versions: the answer names min_version and max_version.
	versions bool
	// retryAfter is in seconds; 0 for none.
	retryAfter int
}

func (e *apiError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.detail) }

func badRequest(format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, detail: fmt.Sprintf(format, args...)}
}

func badParameter(code, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, code: code, detail: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) *apiError {
	return &apiError{status: http.StatusNotFound, detail: fmt.Sprintf(format, args...)}
}

func conflict(code, format string, args ...any) *apiError {
	return &apiError{status: http.StatusConflict, code: code, detail: fmt.Sprintf(format, args...)}
}

// explanations are the texts before the detail, from WebOb, which Placement uses.
var explanations = map[int]string{
	http.StatusBadRequest: "The server could not comply with the request since it is either malformed or otherwise incorrect.",
	http.StatusUnauthorized: "This server could not verify that you are authorized to access the document you requested.  Either you supplied " +
		"the wrong credentials (e.g., bad password), or your browser does not understand how to supply the credentials required.",
	http.StatusForbidden:             "Access was denied to this resource.",
	http.StatusNotFound:              "The resource could not be found.",
	http.StatusConflict:              "There was a conflict when trying to complete your request.",
	http.StatusRequestEntityTooLarge: "The body of your request was too large for this server.",
	http.StatusInternalServerError:   "The server has either erred or is incapable of performing the requested operation.",
	http.StatusServiceUnavailable:    "The server is currently unavailable. Please try again at a later time.",
	http.StatusGatewayTimeout:        "The gateway has timed out.",
}

// markup matches what WebOb strips from texts.
var markup = regexp.MustCompile(`<[^>]*>`)

type errorBody struct {
	Status     int    `json:"status"`
	Title      string `json:"title"`
	Detail     string `json:"detail"`
	Code       string `json:"code,omitempty"`
	RequestID  string `json:"request_id"`
	MaxVersion string `json:"max_version,omitempty"`
	MinVersion string `json:"min_version,omitempty"`
}

// fail answers with an error.
func (c *call) fail(e *apiError) {
	explanation := explanations[e.status]
	switch e.status {
	case http.StatusMethodNotAllowed:
		explanation = "The method " + c.r.Method + " is not allowed for this resource. "
	case http.StatusNotAcceptable:
		explanation = "The resource could not be generated that was acceptable to your browser (content of type " + c.r.Header.Get("Accept") + ". "
	case http.StatusUnsupportedMediaType:
		explanation = "The request media type " + c.r.Header.Get("Content-Type") + " is not supported by this server. "
	}
	detail := strings.ReplaceAll(strings.ReplaceAll(e.detail, "\r", ""), "\n", " ")
	body := errorBody{Status: e.status, Title: http.StatusText(e.status), Detail: explanation + "\n\n " + markup.ReplaceAllString(detail, "") + "  ", RequestID: c.id}
	if c.version >= codesSince {
		body.Code = cmp.Or(e.code, codeUndefined)
	}
	if e.versions {
		body.MinVersion, body.MaxVersion = minVersion.String(), maxVersion.String()
	}
	if e.allow != "" {
		c.w.Header().Set("Allow", e.allow)
	}
	if e.retryAfter > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	writeJSON(c.w, e.status, map[string]any{"errors": []errorBody{body}})
}

// errorOf converts a handler's error to an answer.
func errorOf(err error) *apiError {
	var e *apiError
	var refusal *Refusal
	var f *fault.Error
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &refusal):
		return refusedAs(refusal, nil)
	case errors.As(err, &large):
		return &apiError{status: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("The body is longer than %d bytes.", large.Limit)}
	case errors.As(err, &f):
		return faultAs(f)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &apiError{status: http.StatusServiceUnavailable, detail: "The request took too long."}
	}
	return &apiError{status: http.StatusInternalServerError, detail: "The gateway has logged the cause under the request id."}
}

func faultAs(f *fault.Error) *apiError {
	e := &apiError{status: http.StatusInternalServerError, detail: f.Message}
	switch f.Kind {
	case fault.CellUnavailable, fault.Overloaded, fault.Contended:
		e.status, e.retryAfter = http.StatusServiceUnavailable, max(1, int(f.RetryAfter.Seconds()))
	case fault.OutcomeUnknown:
		e.status = http.StatusGatewayTimeout
	case fault.InvalidRequest:
		e.status = http.StatusBadRequest
	case fault.Internal:
		e.detail = "The gateway has logged the cause under the request id."
	}
	return e
}

// text gives the text of Placement's exception for a refusal.
func (r *Refusal) text() string {
	switch r.Reason {
	case ProviderNotFound:
		return fmt.Sprintf(noProvider, r.Provider)
	case ParentNotFound:
		return "Object action create failed because: parent provider UUID does not exist."
	case ProviderGeneration:
		return "Another thread concurrently updated the resource provider data. Please retry your update"
	case ProviderHasAllocations:
		return "Resource provider has allocations."
	case ProviderHasChildren:
		return "It has child resource providers."
	case InventoryInUse:
		return fmt.Sprintf("Inventory for '%s' on resource provider '%s' in use.", r.Class, r.Provider)
	case InventoryMissing:
		return fmt.Sprintf("Inventory for '%s' on resource provider '%s' invalid.", r.Class, r.Provider)
	case InventoryRefused:
		return fmt.Sprintf("Unable to create allocation for '%s' on resource provider '%s'. The requested amount would violate inventory constraints.", r.Class, r.Provider)
	case CapacityExceeded:
		return fmt.Sprintf("Unable to create allocation for '%s' on resource provider '%s'. The requested amount would exceed the capacity.", r.Class, r.Provider)
	case ConsumerGeneration:
		return "Another thread concurrently updated the data. Please retry your update"
	case ConsumerNotFound:
		return fmt.Sprintf("No allocations for consumer '%s'", r.Consumer)
	case ClassNotFound:
		return unknownName(ClassName, r.Name)
	case TraitNotFound:
		return unknownName(TraitName, r.Name)
	case ClassInUse:
		return "Cannot delete resource class " + r.Name + ". Class is in use in inventory."
	case TraitInUse:
		return "The trait " + r.Name + " is in use by a resource provider."
	case CrossCell:
		return "Providers of several cells cannot be changed in one request. " + r.Detail
	case CellNotFound:
		if r.Name == "" {
			return "No cell is known for a new root provider: " + r.Detail
		}
		return fmt.Sprintf("There is no cell %q.", r.Name)
	case AgentTree:
		return "An agent reports the provider tree of this host; only the agent can change it. " + r.Detail
	}
	return r.Detail
}

// refusalFormat is a handler's answer to a refusal: status, code and a format with one %s for the reason's text.
type refusalFormat struct {
	status int
	code   string
	format string
}

// refusedAs converts a refusal to an answer in the handler's format, or in the default one.
func refusedAs(r *Refusal, formats map[Reason]refusalFormat) *apiError {
	if w, ok := formats[r.Reason]; ok {
		return &apiError{status: w.status, code: w.code, detail: fmt.Sprintf(w.format, r.text())}
	}
	switch r.Reason {
	case ProviderNotFound, ConsumerNotFound, ClassNotFound, TraitNotFound:
		return notFound("%s", r.text())
	case CellNotFound:
		return &apiError{status: http.StatusNotFound, code: CodeNoCell, detail: r.text()}
	case AgentTree:
		return conflict(CodeAgentTree, "%s", r.text())
	case ProviderGeneration, ConsumerGeneration:
		return conflict(CodeConcurrentUpdate, "%s", r.text())
	case ParentNotFound, ReparentRefused:
		return badRequest("%s", r.text())
	}
	return conflict("", "%s", r.text())
}

// formatted converts a refusal to an answer in the handler's format, and returns any other error unchanged.
func formatted(err error, formats map[Reason]refusalFormat) error {
	var r *Refusal
	if errors.As(err, &r) {
		return refusedAs(r, formats)
	}
	return err
}
