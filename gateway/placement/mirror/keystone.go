package mirror

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"cellgate/gateway/placement"
)

// tokenFor is how long a token of Keystone is used: less than the shortest lifetime that is sensible.
const tokenFor = 10 * time.Minute

// KeystoneToken has Keystone give tokens of an account, which needs the role admin or service.
func KeystoneToken(cfg placement.KeystoneConfig, transport http.RoundTripper) func(context.Context) (string, error) {
	var mu sync.Mutex
	var token string
	var until time.Time
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Now().Before(until) {
			return token, nil
		}
		provider, err := openstack.NewClient(cfg.AuthURL)
		if err != nil {
			return "", err
		}
		provider.HTTPClient = http.Client{Transport: transport, Timeout: 10 * time.Second}
		if err := openstack.Authenticate(ctx, provider, gophercloud.AuthOptions{
			IdentityEndpoint: cfg.AuthURL, Username: cfg.Username, Password: cfg.Password, DomainName: cfg.UserDomain,
			Scope: &gophercloud.AuthScope{ProjectName: cfg.ProjectName, DomainName: cfg.ProjectDomain},
		}); err != nil {
			return "", fmt.Errorf("keystone at %s: %w", cfg.AuthURL, err)
		}
		token, until = provider.Token(), time.Now().Add(tokenFor)
		return token, nil
	}
}
