package keystone

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
)

// Timeout bounds one call of Keystone or of the service.
const Timeout = 10 * time.Second

// Service says where a service is, and as whom to call it. Safe for concurrent use.
type Service struct {
	// Type is the service's type in the catalog, such as placement; Version is its API version. Section
	// is its section of nova.conf.
	Type, Section string
	Version       int
	// Auth is an account of Keystone.
	Auth gophercloud.AuthOptions
	// Endpoint is endpoint_override. If it is "", the endpoint comes from the catalog: in Region, of
	// the first of Interfaces that exists.
	Endpoint, Region string
	Interfaces       []string
	Transport        http.RoundTripper

	mu     sync.Mutex
	client *gophercloud.ServiceClient
}

// Client returns a client of the service, whose token is renewed when it expires.
func (s *Service) Client(ctx context.Context) (*gophercloud.ServiceClient, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	provider, err := openstack.NewClient(s.Auth.IdentityEndpoint)
	if err != nil {
		return nil, fmt.Errorf("ask Keystone: %w", err)
	}
	provider.HTTPClient = http.Client{Timeout: Timeout, Transport: s.Transport}
	if err := openstack.Authenticate(ctx, provider, s.Auth); err != nil {
		return nil, fmt.Errorf("ask Keystone: %w", err)
	}
	endpoint := s.Endpoint
	var missing []error
	for _, i := range append(slices.Clone(s.Interfaces), "internal", "public") {
		if endpoint != "" {
			break
		}
		of := gophercloud.EndpointOpts{Version: s.Version, Region: s.Region, Availability: gophercloud.Availability(i)}
		of.ApplyDefaults(s.Type)
		if endpoint, err = provider.EndpointLocator(of); err != nil {
			endpoint, missing = "", append(missing, err)
		}
	}
	if endpoint == "" {
		return nil, fmt.Errorf("the service %s is not found in the catalog of Keystone: set [%s] endpoint_override: %w", s.Type, s.Section, errors.Join(missing...))
	}
	s.client = &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: strings.TrimRight(endpoint, "/") + "/", Type: s.Type}
	return s.client, nil
}
