package placement

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
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
	w   *statusWriter
	r   *http.Request
	ctx context.Context
	id  string
	// version is minVersion until it is read.
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
	cell, path := SplitCell(r.URL.Path)
	if path != r.URL.Path {
		c.cell, c.prefix = cell, CellsPath+cell
	}
	path = cmp.Or(path, "/")
	if a.OnAnswer != nil {
		defer func() { a.OnAnswer(c.request, c.w.status, time.Since(began), silent.list()) }()
	}
	err := c.serve(path)
	if err == nil {
		return
	}
	e := errorOf(err)
	if e.status >= http.StatusInternalServerError {
		a.Log.Error("A request to the Placement API failed.", "request_id", c.id, "method", r.Method, "path", r.URL.Path, "error", err)
	}
	DiscardBody(r)
	c.fail(e)
}

// SplitCell splits the path /cells/NAME/… into the cell's name and the path below it; the name is "" for other paths.
func SplitCell(path string) (cell, below string) {
	rest, ok := strings.CutPrefix(path, CellsPath)
	if !ok {
		return "", path
	}
	cell, below, _ = strings.Cut(rest, "/")
	return cell, "/" + below
}

// serve answers a request, or returns the error.
func (c *call) serve(path string) (err error) {
	if path != "/" {
		if c.caller, err = c.auth.authenticate(c.ctx, c.r); err != nil {
			if errors.Is(err, errUnauthorized) {
				c.w.Header().Set("WWW-Authenticate", c.auth.challenge())
			}
			return err
		}
	}
	if c.version, err = versionOf(c.r.Header); err != nil {
		return err
	}
	c.w.Header().Set(versionHeader, serviceType+" "+c.version.String())
	c.w.Header().Add("Vary", strings.ToLower(versionHeader))
	if c.prefix != "" && c.HasCell != nil && !c.HasCell(c.cell) {
		return &Refusal{Reason: CellNotFound, Name: c.cell}
	}
	if c.r.ContentLength > 0 && c.r.Header.Get("Content-Type") == "" {
		return badRequest("content-type header required when content-length > 0")
	}
	var malformed error
	c.query, malformed = parseQuery(c.r.URL.RawQuery)
	e, err := c.route(path)
	if err = cmp.Or(err, malformed); err != nil {
		return err
	}
	return e.serve(c)
}

// showVersions is the version document.
func (c *call) showVersions() error {
	return c.reply(http.StatusOK, map[string]any{"versions": []any{map[string]any{
		"id": "v" + minVersion.String(), "min_version": minVersion.String(), "max_version": maxVersion.String(), "status": "CURRENT",
		"links": []any{map[string]any{"rel": "self", "href": ""}},
	}}})
}
