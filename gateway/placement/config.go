package placement

import (
	"log/slog"
	"net/http"
	"time"

	"cellgate/internal/ingress"
)

// Config configures the API. The loader of the configuration checks it.
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
