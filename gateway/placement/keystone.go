package placement

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"golang.org/x/sync/singleflight"

	"cellgate/internal/fault"
)

const (
	// mostTokens bounds the cache of valid tokens.
	mostTokens = 4096
	// keystoneTimeout bounds one request to Keystone.
	keystoneTimeout = 10 * time.Second
	// mostValidated bounds the tokens that are validated at once: anybody may send any number of unknown ones.
	mostValidated = 256
)

// keystone validates tokens by asking Keystone, and caches valid ones. Safe for concurrent use.
type keystone struct {
	cfg       KeystoneConfig
	transport http.RoundTripper
	asking    singleflight.Group
	// slots has an element for each token that is being validated.
	slots chan struct{}

	mu     sync.Mutex
	client *gophercloud.ServiceClient
	valid  map[[sha256.Size]byte]validToken
}

type validToken struct {
	caller *caller
	until  time.Time
}

func newKeystone(cfg KeystoneConfig, transport http.RoundTripper) *keystone {
	return &keystone{cfg: cfg, transport: transport, slots: make(chan struct{}, mostValidated), valid: map[[sha256.Size]byte]validToken{}}
}

// validate gives the caller of a token. A token that Keystone revokes stays valid for at most cfg.CacheFor.
func (k *keystone) validate(ctx context.Context, token string) (*caller, error) {
	key := sha256.Sum256([]byte(token))
	k.mu.Lock()
	known, ok := k.valid[key]
	k.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.caller, nil
	}
	// Concurrent requests with one token share one call to Keystone, which outlives the request that began it.
	answer := k.asking.DoChan(string(key[:]), func() (any, error) {
		select {
		case k.slots <- struct{}{}:
			defer func() { <-k.slots }()
		default:
			return nil, &fault.Error{Kind: fault.Overloaded, Message: "too many tokens are being validated", RetryAfter: time.Second}
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*keystoneTimeout)
		defer cancel()
		v, err := k.ask(ctx, token)
		if err == nil {
			k.remember(key, v)
		}
		return v.caller, err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case a := <-answer:
		if a.Err != nil {
			return nil, a.Err
		}
		return a.Val.(*caller), nil
	}
}

// remember caches a valid token. A full cache is cleared, and fills again with the tokens in use.
func (k *keystone) remember(key [sha256.Size]byte, v validToken) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.valid) >= mostTokens {
		clear(k.valid)
	}
	k.valid[key] = v
}

func (k *keystone) ask(ctx context.Context, token string) (validToken, error) {
	client, err := k.connect(ctx)
	if err != nil {
		return validToken{}, fault.Wrap(fault.CellUnavailable, err, "Keystone does not admit the gateway's account, or does not answer")
	}
	got := tokens.Get(ctx, client, token)
	if gophercloud.ResponseCodeIs(got.Err, http.StatusNotFound) {
		return validToken{}, errUnauthorized
	}
	var body struct {
		ExpiresAt time.Time               `json:"expires_at"`
		User      struct{ ID string }     `json:"user"`
		Project   struct{ ID string }     `json:"project"`
		Roles     []struct{ Name string } `json:"roles"`
	}
	if err := got.ExtractInto(&body); err != nil {
		return validToken{}, fault.Wrap(fault.CellUnavailable, err, "Keystone does not answer")
	}
	now := time.Now()
	if !body.ExpiresAt.After(now) {
		return validToken{}, errUnauthorized
	}
	who := &caller{user: body.User.ID, project: body.Project.ID}
	for _, r := range body.Roles {
		who.roles = append(who.roles, r.Name)
	}
	until := now.Add(k.cfg.CacheFor)
	if body.ExpiresAt.Before(until) {
		until = body.ExpiresAt
	}
	return validToken{who, until}, nil
}

// Authenticate gets a token of the account from Keystone.
func (c KeystoneConfig) Authenticate(ctx context.Context, transport http.RoundTripper) (*gophercloud.ProviderClient, error) {
	provider, err := openstack.NewClient(c.AuthURL)
	if err != nil {
		return nil, err
	}
	provider.HTTPClient = http.Client{Timeout: keystoneTimeout, Transport: transport}
	return provider, openstack.Authenticate(ctx, provider, gophercloud.AuthOptions{
		IdentityEndpoint: c.AuthURL, Username: c.Username, Password: c.Password, DomainName: c.UserDomain, AllowReauth: true,
		Scope: &gophercloud.AuthScope{ProjectName: c.ProjectName, DomainName: c.ProjectDomain},
	})
}

// connect gives a client with the gateway's own token, which is renewed when it expires.
func (k *keystone) connect(ctx context.Context) (*gophercloud.ServiceClient, error) {
	k.mu.Lock()
	client := k.client
	k.mu.Unlock()
	if client != nil {
		return client, nil
	}
	provider, err := k.cfg.Authenticate(ctx, k.transport)
	if err != nil {
		return nil, err
	}
	client, err = openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	if err != nil {
		return nil, err
	}
	// The gateway may be unable to reach the endpoint in the catalog.
	client.Endpoint = provider.IdentityBase + "v3/"
	k.mu.Lock()
	k.client = client
	k.mu.Unlock()
	return client, nil
}
