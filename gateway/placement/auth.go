package placement

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"slices"
	"strings"

	"cellgate/internal/ingress"
)

// caller is an authenticated user of the API.
type caller struct {
	user, project string
	roles         []string
}

// ruleUsages is the only rule that permits a project's reader: usages of the reader's own project.
const ruleUsages = "placement:usages"

// may is Placement's default policy: admin and service may do all, a reader may only read the usages of its own
// project.
func (who *caller) may(rule string, query parameters) bool {
	if slices.Contains(who.roles, "admin") || slices.Contains(who.roles, "service") {
		return true
	}
	return rule == ruleUsages && slices.Contains(who.roles, "reader") && who.project != "" && query.last("project_id") == who.project
}

// authenticator finds the caller of a request.
type authenticator struct {
	trustLoopback bool
	keystone      *keystone // nil: not asked
}

func newAuthenticator(cfg Config, d Deps) authenticator {
	a := authenticator{trustLoopback: cfg.TrustLoopback}
	if cfg.Keystone.AuthURL != "" {
		a.keystone = newKeystone(cfg.Keystone, d.KeystoneTransport)
	}
	return a
}

var errUnauthorized = &apiError{status: http.StatusUnauthorized, detail: "The request needs a valid X-Auth-Token."}

// challenge gives the value of the header WWW-Authenticate.
func (a authenticator) challenge() string {
	if a.keystone == nil {
		return `Keystone uri=""`
	}
	return `Keystone uri="` + a.keystone.cfg.AuthURL + `"`
}

func (a authenticator) authenticate(ctx context.Context, r *http.Request) (*caller, error) {
	token := r.Header.Get("X-Auth-Token")
	if token == "" {
		return nil, errUnauthorized
	}
	user, project, both := strings.Cut(token, ":")
	if a.trustLoopback && isLoopback(r.RemoteAddr) && (both || user == "admin" || a.keystone == nil) {
		who := &caller{user: user, project: cmp.Or(project, user)}
		if roles, given := r.Header["X-Roles"]; given {
			who.roles = strings.Split(strings.Join(roles, ","), ",")
		} else if user == "admin" {
			who.roles = []string{"admin"}
		}
		return who, nil
	}
	if a.keystone == nil {
		return nil, errUnauthorized
	}
	return a.keystone.validate(ctx, token)
}

func isLoopback(address string) bool {
	ip := net.ParseIP(ingress.HostOf(address))
	return ip != nil && ip.IsLoopback()
}
