package keystone

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

func TestClient_NoEndpointOverride_IsOfTheCatalogInTheOrderOfInterfaces(t *testing.T) {
	type all = map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := "http://" + r.Host
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Subject-Token", "t")
		if r.URL.Path != "/v3/auth/tokens" {
			_ = json.NewEncoder(w).Encode(all{"versions": []any{all{"id": "v1.0", "status": "CURRENT", "min_version": "1.0", "max_version": "1.39", "links": []any{all{"rel": "self", "href": ""}}}}})
			return
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(all{"token": all{"expires_at": time.Now().Add(time.Hour), "catalog": []any{
			all{"type": "placement", "name": "placement", "endpoints": []any{
				all{"interface": "public", "region": "one", "region_id": "one", "url": at + "/public"},
				all{"interface": "internal", "region": "one", "region_id": "one", "url": at + "/internal"},
				all{"interface": "admin", "region": "one", "region_id": "one", "url": at + "/admin"},
			}},
		}}})
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	for _, tt := range []struct {
		service    *Service
		want, fail string
	}{
		{&Service{Type: "placement"}, "/internal/", ""},
		{&Service{Type: "placement", Interfaces: []string{"admin", "public"}}, "/admin/", ""},
		{&Service{Type: "placement", Interfaces: []string{"nothing", "public"}, Region: "one"}, "/public/", ""},
		{&Service{Type: "placement", Endpoint: server.URL + "/given"}, "/given/", ""},
		{&Service{Type: "placement", Region: "two", Section: "placement"}, "", "set [placement] endpoint_override"},
		{&Service{Type: "network", Section: "neutron"}, "", "set [neutron] endpoint_override"},
	} {
		s := tt.service
		s.Version, s.Transport = 1, transport
		s.Auth = gophercloud.AuthOptions{
			IdentityEndpoint: server.URL + "/v3", Username: "u", Password: "p", DomainName: "d", Scope: &gophercloud.AuthScope{ProjectName: "service", DomainName: "d"},
		}
		c, err := s.Client(t.Context())
		if tt.fail != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fail) {
				t.Errorf("%+v: %v", tt.want, err)
			}
			continue
		}
		if err != nil || c.Endpoint != server.URL+tt.want {
			t.Errorf("%s: %v, %v", tt.want, c, err)
		}
	}
}
