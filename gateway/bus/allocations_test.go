package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"cellgate/internal/keystone"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// fakePlacement is Keystone, and the allocations of a Placement that lacks the providers in missing, and in which all
// others but those in full have room.
type fakePlacement struct {
	full, missing map[string]bool
	// before is called with each request.
	before func(*http.Request)

	mu          sync.Mutex
	allocations map[string]map[string]any
	generation  map[string]int
	calls       []string
}

func (p *fakePlacement) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.before != nil {
		p.before(r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := func(status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	refuse := func(status int, code, detail string) {
		answer(status, map[string]any{"errors": []any{map[string]any{"code": code, "detail": detail}}})
	}
	if r.URL.Path == "/v3/auth/tokens" {
		w.Header().Set("X-Subject-Token", "t")
		answer(http.StatusCreated, map[string]any{"token": map[string]any{"expires_at": time.Now().Add(time.Hour), "catalog": []any{}}})
		return
	}
	id := r.URL.Path[len("/placement/allocations/"):]
	p.calls = append(p.calls, r.Method)
	switch r.Method {
	case http.MethodGet:
		answer(http.StatusOK, map[string]any{"allocations": p.allocations[id], "consumer_generation": p.generation[id]})
	case http.MethodDelete:
		delete(p.allocations, id)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPut:
		var body struct {
			Allocations map[string]any `json:"allocations"`
			Generation  *int           `json:"consumer_generation"`
			Project     string         `json:"project_id"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Project == "" || r.Header.Get("X-Auth-Token") != "t" || r.Header.Get("OpenStack-API-Version") != "placement 1.36" {
			answer(http.StatusBadRequest, fmt.Sprint(err, body, r.Header))
			return
		}
		_, has := p.allocations[id]
		if has != (body.Generation != nil) || has && *body.Generation != p.generation[id] {
			refuse(http.StatusConflict, "placement.concurrent_update", "consumer generation conflict - expected null")
			return
		}
		for provider := range body.Allocations {
			if p.full[provider] {
				refuse(http.StatusConflict, "placement.undefined_code", "Unable to allocate inventory: capacity exceeded")
				return
			}
			if p.missing[provider] {
				refuse(http.StatusBadRequest, "placement.undefined_code", "Allocation for resource provider '"+provider+"' that does not exist.")
				return
			}
		}
		p.allocations[id], p.generation[id] = body.Allocations, p.generation[id]+1
		w.WriteHeader(http.StatusNoContent)
	}
}

// writingBus is a bus that writes to p; the gateway places instance i on the i-th of names that is not ignored.
func writingBus(t *testing.T, p *fakePlacement, names ...string) (*Bus, *gateway) {
	t.Helper()
	p.allocations, p.generation = map[string]map[string]any{}, map[string]int{}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	g := &gateway{}
	g.answer = func(_ context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		var ignored []string
		for _, v := range specOf(req)["ignore_hosts"].GetListValue().GetValues() {
			ignored = append(ignored, v.GetStringValue())
		}
		left := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(ignored, n) })
		resp := &cellgatev1.SelectDestinationsResponse{}
		for i, id := range req.GetInstanceUuids() {
			host := left[i%len(left)]
			resp.Destinations = append(resp.Destinations, &cellgatev1.Destinations{InstanceUuid: id, Selected: &cellgatev1.Selection{
				ServiceHost: host, Claimed: true, ClaimId: "claim-" + host, Cell: "cell1",
				AllocationRequest: fmt.Sprintf(`{"allocations": {%q: {"resources": {"VCPU": 1}}}}`, host), AllocationRequestVersion: "1.36",
			}})
		}
		return resp, nil
	}
	return newBus(t, g, func(c *Config) {
		c.Placement = &keystone.Service{Endpoint: s.URL + "/placement", Auth: gophercloud.AuthOptions{
			IdentityEndpoint: s.URL + "/v3", Username: "u", Password: "p", DomainName: "d", AllowReauth: true,
			Scope: &gophercloud.AuthScope{ProjectName: "service", DomainName: "d"},
		}}
	}), g
}

func TestSelectDestinations_WritesAllocations_OneCallAnInstance(t *testing.T) {
	p := &fakePlacement{}
	b, _ := writingBus(t, p, "a", "b", "c", "d")
	r := recordings(t)["groups"].request(t)
	if _, failed, err := b.dispatch(t.Context(), r); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	if len(p.allocations) != 4 || !slices.Equal(p.calls, []string{"PUT", "PUT", "PUT", "PUT"}) {
		t.Errorf("allocations %v, calls %v", p.allocations, p.calls)
	}
}

// The bus asks again without the host that Placement refuses. No claim or allocation of the first answer stays.
func TestSelectDestinations_PlacementRefusesAHost_AsksForAnother(t *testing.T) {
	for _, p := range []*fakePlacement{{full: map[string]bool{"b": true}}, {missing: map[string]bool{"b": true}}} {
		b, g := writingBus(t, p, "a", "b", "c", "d")
		if _, failed, err := b.dispatch(t.Context(), recordings(t)["groups"].request(t)); failed != nil || err != nil {
			t.Fatal(failed, err)
		}
		for id, on := range p.allocations {
			if len(on) != 1 || on["b"] != nil {
				t.Errorf("%s has %v, want one host that does not refuse", id, on)
			}
		}
		if slices.Sort(g.released); len(p.allocations) != 4 || !slices.Equal(g.released, []string{"claim-a", "claim-b", "claim-c", "claim-d"}) {
			t.Errorf("allocations %v, released %v", p.allocations, g.released)
		}
	}
}

// An evacuated instance keeps the allocations of its old host, and a message that is delivered
// again changes nothing.
func TestSelectDestinations_InstanceHasAllocations_KeepsThem(t *testing.T) {
	p := &fakePlacement{}
	b, _ := writingBus(t, p, "a")
	r := recordings(t)["boot"].request(t)
	a, failed := readArguments(r)
	if failed != nil {
		t.Fatal(failed)
	}
	id := a.instances[0]
	p.allocations[id], p.generation[id] = map[string]any{"old": map[string]any{"resources": map[string]any{"VCPU": 1}}}, 7
	for range 2 {
		if _, failed, err := b.dispatch(t.Context(), r); failed != nil || err != nil {
			t.Fatal(failed, err)
		}
		if on := p.allocations[id]; len(on) != 2 || on["a"] == nil || on["old"] == nil {
			t.Errorf("allocations %v", on)
		}
	}
}

// If the connection to the broker is lost, another gateway gets the message, and goes on with the claims and
// allocations of this one.
func TestSelectDestinations_ConnectionLostDuringWrite_KeepsClaimsAndAllocations(t *testing.T) {
	ctx, lose := context.WithCancel(t.Context())
	over := make(chan struct{})
	var puts atomic.Int32
	p := &fakePlacement{before: func(r *http.Request) {
		if r.Method == http.MethodPut && puts.Add(1) == 4 {
			lose()
			<-over
		}
	}}
	b, g := writingBus(t, p, "a", "b", "c", "d")
	_, failed, err := b.dispatch(ctx, recordings(t)["groups"].request(t))
	close(over)
	if failed != nil || err == nil {
		t.Fatal(failed, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(g.released) != 0 || slices.Contains(p.calls, http.MethodDelete) {
		t.Errorf("released %v, calls %v", g.released, p.calls)
	}
}

func TestSelectDestinations_PlacementIsFull_IsNoValidHost(t *testing.T) {
	p := &fakePlacement{full: map[string]bool{"a": true, "b": true, "c": true, "d": true}}
	b, g := writingBus(t, p, "a", "b", "c", "d")
	_, failed, err := b.dispatch(t.Context(), recordings(t)["boot"].request(t))
	if err != nil || failed == nil || failed.Class != "NoValidHost" || len(p.allocations) != 0 || len(g.released) != writeAttempts {
		t.Errorf("%+v %v, allocations %v, released %v", failed, err, p.allocations, g.released)
	}
}
