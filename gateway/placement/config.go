package placement

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"cellgate/internal/ingress"
)

// Config configures the API.
type Config struct {
	// Keystone validates tokens.
	Keystone KeystoneConfig
	// TrustLoopback accepts the token "admin", or USER:PROJECT with the roles of X-Roles, from loopback addresses
	// without asking Keystone, as Placement's auth_strategy noauth2 does. It is for tests and tools on the gateway's
	// own machine.
	TrustLoopback bool
	// AcceptRepeats answers 204, where Placement answers 409, to a repeated write of allocations: its consumer
	// generation is old, but the consumers already hold what it asks for. A load balancer or Nova repeats a write
	// whose answer was lost.
	AcceptRepeats bool
	// Timeout bounds the work of one request; 0 means 60 s.
	Timeout time.Duration
	// MaxBody bounds the body of a request, in bytes; 0 means 4 MiB.
	MaxBody int64
}

// KeystoneConfig is [keystone_authtoken] of placement.conf: the account by which the API asks Keystone about tokens.
type KeystoneConfig struct {
	// AuthURL is Keystone's v3 endpoint. If it is empty, tokens are not validated, and every request needs
	// TrustLoopback.
	AuthURL                                                    string
	Username, Password, UserDomain, ProjectName, ProjectDomain string
	// CacheFor is how long a validated token is accepted without asking again, even if it is revoked meanwhile; 0
	// means 60 s.
	CacheFor time.Duration
}

// Deps are the parts of the gateway that the API needs.
type Deps struct {
	Backend Backend
	// HasCell reports whether there is a cell of that name, for /cells/NAME; nil: every name is accepted.
	HasCell func(name string) bool
	// Ingress bounds the bytes of bodies; nil: they are not bounded in total.
	Ingress *ingress.Ingress
	// KeystoneTransport reaches Keystone; nil: Go's default.
	KeystoneTransport http.RoundTripper
	// OnAnswer is called after each answer with the request's name in Requests, or "", and with the cells that the
	// answer lacks; nil: nothing is called.
	OnAnswer func(request string, status int, took time.Duration, silent []string)
	Log      *slog.Logger
}

const (
	defaultTimeout  = 60 * time.Second
	defaultMaxBody  = 4 << 20
	defaultCacheFor = 60 * time.Second
)

func (c Config) withDefaults() (Config, error) {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.MaxBody == 0 {
		c.MaxBody = defaultMaxBody
	}
	if c.Keystone.CacheFor == 0 {
		c.Keystone.CacheFor = defaultCacheFor
	}
	if c.Timeout < 0 || c.MaxBody < 0 || c.Keystone.CacheFor < 0 {
		return c, errors.New("timeout, max_body and cache_for must not be negative")
	}
	k := c.Keystone
	if k.AuthURL == "" {
		if !c.TrustLoopback {
			return c, errors.New("either keystone.auth_url or trust_loopback must be set: else nobody may ask")
		}
		return c, nil
	}
	if u, err := url.Parse(k.AuthURL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return c, fmt.Errorf("keystone.auth_url %q is no http or https address", k.AuthURL)
	}
	if k.Username == "" || k.Password == "" || k.ProjectName == "" {
		return c, errors.New("keystone needs a username, a password and a project_name beside auth_url")
	}
	return c, nil
}
