package neutron

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"go.uber.org/goleak"

	"cellgate/internal/fault"
	"cellgate/internal/keystone"
	"cellgate/schedule/nova"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cloud is Keystone, Neutron and Placement. The network routed has the segments s1, with the subnet u2,
// and s2. The network flat is not routed. Segment s1 has the aggregate a1, s2 has a2 and a3, s3 has
// none, and s4 is not in Placement.
func cloud(t *testing.T, down *atomic.Bool) *Segments {
	t.Helper()
	type all = map[string]any
	subnet := map[string]any{
		"network_id=routed&fields=segment_id": []any{all{"segment_id": "s1"}, all{"segment_id": "s1"}, all{"segment_id": "s2"}},
		"network_id=flat&fields=segment_id":   []any{all{"segment_id": nil}, all{}},
		"network_id=bare&fields=segment_id":   []any{all{"segment_id": "s3"}},
		"network_id=lost&fields=segment_id":   []any{all{"segment_id": "s4"}},
		"id=u2&fields=segment_id":             []any{all{"segment_id": "s1"}},
	}
	answers := map[string]any{
		"/v2.0/ports/unbound":                         all{"port": all{"network_id": "routed", "fixed_ips": []any{}}},
		"/v2.0/ports/bound":                           all{"port": all{"network_id": "routed", "fixed_ips": []any{all{"subnet_id": "u2"}, all{"subnet_id": "u9"}}}},
		"/placement/resource_providers/s1/aggregates": all{"aggregates": []string{"a1"}, "resource_provider_generation": 1},
		"/placement/resource_providers/s2/aggregates": all{"aggregates": []string{"a3", "a2"}, "resource_provider_generation": 1},
		"/placement/resource_providers/s3/aggregates": all{"aggregates": []string{}, "resource_provider_generation": 1},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := answers[r.URL.Path]
		switch {
		case r.URL.Path == "/v3/auth/tokens":
			w.Header().Set("X-Subject-Token", "t")
			w.WriteHeader(http.StatusCreated)
			answer = all{"token": all{"expires_at": time.Now().Add(time.Hour), "catalog": []any{}}}
		case down.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Header.Get("X-Auth-Token") != "t", strings.HasPrefix(r.URL.Path, "/placement") && r.Header.Get("OpenStack-API-Version") != "placement 1.19":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/v2.0/subnets":
			q := r.URL.Query()
			key := "network_id=" + q.Get("network_id")
			if q.Has("id") {
				key = "id=" + q.Get("id")
			}
			answer = all{"subnets": subnet[key+"&fields="+q.Get("fields")]}
		case answer == nil:
			w.WriteHeader(http.StatusNotFound)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	of := func(kind, path string) *keystone.Service {
		return &keystone.Service{Type: kind, Endpoint: server.URL + path, Transport: transport, Auth: gophercloud.AuthOptions{
			IdentityEndpoint: server.URL + "/v3", Username: "u", Password: "p", DomainName: "d", AllowReauth: true,
			Scope: &gophercloud.AuthScope{ProjectName: "service", DomainName: "d"},
		}}
	}
	return &Segments{Neutron: of("network", ""), Placement: of("placement", "/placement/")}
}

func TestAggregates_PortsAndNetworks_AreThoseOfTheirSegments(t *testing.T) {
	network := func(id string) nova.RequestedNetwork { return nova.RequestedNetwork{Path: "networks[0]", Network: id} }
	port := func(id string) nova.RequestedNetwork { return nova.RequestedNetwork{Path: "networks[1]", Port: id} }
	var down atomic.Bool
	s := cloud(t, &down)
	for _, tt := range []struct {
		name  string
		asked []nova.RequestedNetwork
		want  [][]string
		wrong string
	}{
		{"a routed network: any of its segments", []nova.RequestedNetwork{network("routed")}, [][]string{{"a1", "a2", "a3"}}, ""},
		{"a port without an address: its network", []nova.RequestedNetwork{port("unbound")}, [][]string{{"a1", "a2", "a3"}}, ""},
		{"a port with an address: the first one's segment", []nova.RequestedNetwork{port("bound")}, [][]string{{"a1"}}, ""},
		{"one of each", []nova.RequestedNetwork{network("routed"), port("bound")}, [][]string{{"a1", "a2", "a3"}, {"a1"}}, ""},
		{"a network without segments", []nova.RequestedNetwork{network("flat")}, [][]string{}, ""},
		{"a segment in no aggregate", []nova.RequestedNetwork{network("bare")}, nil, "networks[0]"},
		{"a segment that Placement does not have", []nova.RequestedNetwork{network("lost")}, nil, "networks[0]"},
		{"a port that is not there", []nova.RequestedNetwork{network("routed"), port("nothing")}, nil, "networks[1]"},
	} {
		got, err := s.Aggregates(t.Context(), tt.asked)
		if tt.wrong != "" {
			if fault.KindOf(err) != fault.InvalidRequest || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
	down.Store(true)
	if got, err := s.Aggregates(t.Context(), []nova.RequestedNetwork{network("routed")}); fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("a service is down: %v, %v", got, err)
	}
}
