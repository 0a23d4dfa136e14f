package mirror

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"cellgate/gateway/placement"
)

// tokenFor is how long a token of Keystone is used: less than any sensible lifetime of tokens.
const tokenFor = 10 * time.Minute

// KeystoneToken gives a function that gets tokens from Keystone for an account, which needs the role admin or
// service.
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
		provider, err := cfg.Authenticate(ctx, transport)
		if err != nil {
			return "", fmt.Errorf("keystone at %s: %w", cfg.AuthURL, err)
		}
		token, until = provider.Token(), time.Now().Add(tokenFor)
		return token, nil
	}
}
