package placement

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"cellgate/internal/ingress"
	"cellgate/internal/osnames"
)

// api is the Placement API of one gateway.
type api struct {
	Deps
	cfg  Config
	auth authenticator
}

// New serves the Placement API from a backend:
//
//	/…             Placement's paths
//	/cells/NAME/…  the same; new root providers go to the cell NAME, which must exist
//
// The handler keeps no state except validated tokens.
func New(cfg Config, d Deps) http.Handler {
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.MaxBody = cmp.Or(cfg.MaxBody, defaultMaxBody)
	cfg.Keystone.CacheFor = cmp.Or(cfg.Keystone.CacheFor, defaultCacheFor)
	return &api{Deps: d, cfg: cfg, auth: newAuthenticator(cfg, d)}
}

// call is one request.
type call struct {
	*api
	w       *statusWriter
	r       *http.Request
	ctx     context.Context
	id      string
	version version
	caller  *caller
	// cell is the cell of new roots, prefix the beginning of paths in answers; both are empty without /cells/NAME.
	cell, prefix string
	vars         map[string]string
	query        parameters
	// request is the request's name in Requests; empty until it is known.
	request string
	// silent are the cells that the answer lacks.
	silent *silentCells
}

const (
	// CellsPath precedes the name of a cell in the paths of requests that name one.
	CellsPath  = "/cells/"
	requestID  = "X-Openstack-Request-Id"
	jsonType   = "application/json"
	freshSince = version(15)
)

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), a.cfg.Timeout)
	defer cancel()
	ctx, silent := withSilent(ctx)
	c := &call{api: a, w: &statusWriter{ResponseWriter: w}, r: r, ctx: ctx, silent: silent, id: "req-" + uuid.NewString()}
	w.Header().Set(requestID, c.id)
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, CellsPath); ok {
		name, below, _ := strings.Cut(rest, "/")
		c.cell, c.prefix, path = name, CellsPath+name, "/"+below
	}
	if path == "" {
		path = "/"
	}
	if a.OnAnswer != nil {
		defer func() { a.OnAnswer(c.request, c.w.status, time.Since(began), silent.list()) }()
	}
	known, err := c.serve(path)
	if err == nil {
		return
	}
	e := errorOf(err)
	if e.status >= http.StatusInternalServerError {
		a.Log.Error("A request to the Placement API failed.", "request_id", c.id, "method", r.Method, "path", r.URL.Path, "error", err)
	}
	DiscardBody(r)
	fail(c.w, r, c.id, known, e)
}

// serve answers a request or returns the error; known is its microversion, nil before that is read.
func (c *call) serve(path string) (known *version, err error) {
	if path != "/" {
		if c.caller, err = c.auth.authenticate(c.ctx, c.r); err != nil {
			if errors.Is(err, errUnauthorized) {
				c.w.Header().Set("WWW-Authenticate", c.auth.challenge())
			}
			return nil, err
		}
	}
	v, bad := versionOf(c.r.Header)
	if bad != nil {
		return nil, bad
	}
	c.version = v
	c.w.Header().Set(versionHeader, serviceType+" "+v.String())
	c.w.Header().Add("Vary", strings.ToLower(versionHeader))
	if c.prefix != "" && c.HasCell != nil && !c.HasCell(c.cell) {
		return &v, &Refusal{Reason: CellNotFound, Name: c.cell}
	}
	if c.r.ContentLength > 0 && c.r.Header.Get("Content-Type") == "" {
		return &v, badRequest("content-type header required when content-length > 0")
	}
	e, err := c.route(path)
	if err != nil {
		return &v, err
	}
	if c.query, err = parseQuery(c.r.URL.RawQuery); err != nil {
		return &v, err
	}
	return &v, e.serve(c)
}

// endpoint is one method of one path.
type endpoint struct {
	method string
	// since and until are the first and last microversion that have it; until 0 means the newest. older is the status
	// in other microversions, 0 for 404.
	since, until version
	older        int
	// takes demands a body of JSON; accepts refuses clients that do not accept JSON.
	takes, accepts bool
	// rule is the policy's name for it; empty if anybody may call it.
	rule  string
	serve func(*call) error
}

type resource struct {
	path      []string
	endpoints []endpoint
}

func at(path string, endpoints ...endpoint) resource {
	return resource{strings.Split(path, "/"), endpoints}
}

// resources has all paths, each from the file of its handlers.
var resources = slices.Concat(
	[]resource{at("/", endpoint{method: http.MethodGet, serve: (*call).showVersions})},
	classResources, providerResources, inventoryResources, usageResources, aggregateResources, allocationResources,
	candidateResources, traitResources, reshaperResources,
)

// requestOf is a method and a path with the names of its variables.
func requestOf(r resource, e endpoint) string { return e.method + " " + strings.Join(r.path, "/") }

// Requests lists the requests that the API serves, sorted.
func Requests() []string {
	var out []string
	for _, r := range resources {
		for _, e := range r.endpoints {
			out = append(out, requestOf(r, e))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// statusWriter keeps the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// match reports whether a path is the resource's, and gives the path's variables.
func (r resource) match(path []string) (map[string]string, bool) {
	if len(path) != len(r.path) {
		return nil, false
	}
	vars := map[string]string{}
	for i, p := range r.path {
		switch {
		case strings.HasPrefix(p, "{") && path[i] != "":
			vars[strings.Trim(p, "{}")] = path[i]
		case p != path[i]:
			return nil, false
		}
	}
	return vars, true
}

// route finds the endpoint, and refuses callers that may not use it.
func (c *call) route(path string) (*endpoint, error) {
	parts := strings.Split(path, "/")
	for _, r := range resources {
		vars, ok := r.match(parts)
		if !ok {
			continue
		}
		c.vars = vars
		var methods []string
		older := 0
		for _, e := range r.endpoints {
			if !slices.Contains(methods, e.method) {
				methods = append(methods, e.method)
			}
			if e.method != c.r.Method {
				continue
			}
			if c.version < e.since || e.until > 0 && c.version > e.until {
				older = cmp.Or(e.older, http.StatusNotFound)
				continue
			}
			c.request = requestOf(r, e)
			return &e, c.admit(&e)
		}
		if older > 0 {
			return nil, &apiError{status: older}
		}
		return nil, &apiError{status: http.StatusMethodNotAllowed, allow: strings.Join(methods, ", "), detail: "The method specified is not allowed for this resource."}
	}
	return nil, &apiError{status: http.StatusNotFound}
}

func (c *call) admit(e *endpoint) error {
	if e.takes {
		// If the type cannot be parsed, the error quotes it.
		given, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
		if err != nil {
			given = cmp.Or(c.r.Header.Get("Content-Type"), "None")
		}
		if given != jsonType {
			return &apiError{status: http.StatusUnsupportedMediaType, detail: fmt.Sprintf("The media type %s is not supported, use %s", given, jsonType)}
		}
	}
	if e.accepts && !acceptsJSON(c.r.Header.Values("Accept")) {
		return &apiError{status: http.StatusNotAcceptable, detail: "Only " + jsonType + " is provided"}
	}
	if e.rule != "" && !c.caller.may(e.rule, c) {
		return &apiError{status: http.StatusForbidden, detail: fmt.Sprintf("Policy does not allow %s to be performed.", e.rule)}
	}
	return nil
}

// acceptsJSON reads Accept. Weights are not read: no client accepts JSON with the weight 0.
func acceptsJSON(headers []string) bool {
	all := strings.ToLower(strings.Join(headers, ","))
	return strings.TrimSpace(all) == "" || strings.Contains(all, jsonType) || strings.Contains(all, "application/*") || strings.Contains(all, "*/*")
}

// body reads the request's JSON and checks it.
func (c *call) body(s *schema) (any, error) {
	size := c.r.ContentLength
	if size < 0 {
		size = c.cfg.MaxBody // the length is not known: assume the most
	}
	if size > c.cfg.MaxBody {
		return nil, &http.MaxBytesError{Limit: c.cfg.MaxBody}
	}
	if c.Ingress != nil {
		release, err := c.Ingress.Body(ingress.HostOf(c.r.RemoteAddr), size)
		if err != nil {
			return nil, err
		}
		defer release()
		done, err := c.Ingress.Heavy(c.ctx, size)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.w.ResponseWriter, c.r.Body, c.cfg.MaxBody))
	if err != nil {
		return nil, err
	}
	return checkJSON(text, s)
}

// maxDiscarded bounds what DiscardBody reads of a body: 64 MiB.
const maxDiscarded = 64 << 20

// DiscardBody reads the rest of a refused request's body, up to maxDiscarded, before the answer. Otherwise net/http
// closes the connection after 256 KiB, and a client that sends its whole body before it reads gets a reset instead of
// the answer. For a client that waits to be asked for the body (Expect: 100-continue), it does nothing.
func DiscardBody(r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded) // the answer is sent even if the body cannot be read
	}
}

// object is body for an object.
func (c *call) object(s *schema) (map[string]any, error) {
	v, err := c.body(s)
	object, _ := v.(map[string]any) // the schema has checked it
	return object, err
}

func checkJSON(text []byte, s *schema) (any, error) {
	v, err := parseJSON(text)
	if err != nil {
		return nil, badRequest("Malformed JSON: %v", err)
	}
	if bad := s.check(v); bad != nil {
		return nil, badRequest("JSON does not validate: %v", bad)
	}
	return v, nil
}

// reply answers with JSON, and names the silent cells that the answer lacks.
func (c *call) reply(status int, v any) error {
	c.markFresh()
	for _, cell := range c.silent.list() {
		c.w.Header().Add(SilentHeader, cell)
	}
	writeJSON(c.w, status, v)
	return nil
}

// markFresh sets Last-Modified to the present time, since shards do not store when a row was last changed.
func (c *call) markFresh() {
	if c.version >= freshSince {
		c.w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		c.w.Header().Set("Cache-Control", "no-cache")
	}
}

func (c *call) replyEmpty(status int) error {
	c.w.WriteHeader(status)
	return nil
}

// setLocation sets the Location of a created object.
func (c *call) setLocation(path string) {
	scheme := "http"
	if c.r.TLS != nil {
		scheme = "https"
	}
	c.w.Header().Set("Location", scheme+"://"+c.r.Host+c.prefix+path)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("an answer cannot be encoded: %v", err)) // callers only pass maps, texts and finite numbers
	}
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Content-Length", strconv.Itoa(text.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // an error means that the client is gone
}

// showVersions is the version document.
func (c *call) showVersions() error {
	return c.reply(http.StatusOK, map[string]any{"versions": []any{map[string]any{
		"id": "v" + minVersion.String(), "min_version": minVersion.String(), "max_version": maxVersion.String(), "status": "CURRENT",
		"links": []any{map[string]any{"rel": "self", "href": ""}},
	}}})
}

// isKnown reports whether a name is registered.
func (c *call) isKnown(kind NameKind, name string) (bool, error) {
	if IsStandard(kind, name) {
		return true, nil
	}
	if !strings.HasPrefix(name, customPrefix) {
		return false, nil
	}
	return c.Backend.HasName(c.ctx, kind, name)
}

// firstUnknown gives the first of names that is not registered, or "".
func (c *call) firstUnknown(kind NameKind, names []string) (string, error) {
	for _, name := range names {
		known, err := c.isKnown(kind, name)
		if err != nil || !known {
			return name, err
		}
	}
	return "", nil
}

func unknownName(kind NameKind, name string) string {
	if kind == ClassName {
		return "No such resource class " + name + "."
	}
	return "No such trait(s): " + name + "."
}

// checkKnown refuses (400) the first of names that is not registered; prefix begins the text.
func (c *call) checkKnown(kind NameKind, names []string, prefix string) error {
	unknown, err := c.firstUnknown(kind, names)
	if err != nil || unknown == "" {
		return err
	}
	return badRequest("%s%s", prefix, unknownName(kind, unknown))
}

// mustExist refuses (404) a name that is not registered; prefix begins the text.
func (c *call) mustExist(kind NameKind, name, prefix string) error {
	known, err := c.isKnown(kind, name)
	if err != nil || known {
		return err
	}
	return notFound("%s%s", prefix, unknownName(kind, name))
}

// customPrefix begins the names that callers may create.
const customPrefix = osnames.CustomPrefix

// StandardNames lists the names of a kind that every deployment has, sorted.
func StandardNames(kind NameKind) []string {
	if kind == ClassName {
		return osnames.Classes()
	}
	return osnames.Traits()
}

// IsStandard reports whether every deployment has a name.
func IsStandard(kind NameKind, name string) bool {
	if kind == ClassName {
		return osnames.IsClass(name)
	}
	return osnames.IsTrait(name)
}
