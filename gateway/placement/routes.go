package placement

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
)

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
	if e.rule != "" && !c.caller.may(e.rule, c.query) {
		return &apiError{status: http.StatusForbidden, detail: fmt.Sprintf("Policy does not allow %s to be performed.", e.rule)}
	}
	return nil
}

// acceptsJSON reads Accept. Weights are not read: no client accepts JSON with the weight 0.
func acceptsJSON(headers []string) bool {
	all := strings.ToLower(strings.Join(headers, ","))
	return strings.TrimSpace(all) == "" || strings.Contains(all, jsonType) || strings.Contains(all, "application/*") || strings.Contains(all, "*/*")
}
