package nova

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cellgate/internal/fault"
)

// network is a NetworkRequest for a network, or for a port unless port is nil.
func network(id, port any) map[string]any {
	return object1("NetworkRequest", "1.3", map[string]any{"network_id": id, "port_id": port, "address": nil, "tag": "nic1"})
}

func requestNetworks(m map[string]any, networks ...any) {
	put(m, "/requested_networks", object1("NetworkRequestList", "1.1", map[string]any{"objects": networks}))
}

func requestDevices(m map[string]any, data map[string]any) {
	put(m, "/pci_requests", object1("InstancePCIRequests", "1.1", map[string]any{
		"requests": []any{object1("InstancePCIRequest", "1.4", data)},
	}))
}

const port = "90000000-0000-4000-8000-000000000001"

func TestRequestedNetworks_RemoteManagedPort_RequiresTrait(t *testing.T) {
	const trait = "COMPUTE_REMOTE_MANAGED_PORTS"
	for name, c := range map[string]struct {
		managed string
		release int
		want    bool
	}{
		"remote":         {managed: "True", want: true},
		"since yoga":     {managed: "True", release: 25, want: true},
		"older releases": {managed: "True", release: 24},
		"local":          {managed: "False"},
	} {
		t.Run(name, func(t *testing.T) {
			m := primitive(t)
			requestNetworks(m, network(nil, port))
			requestDevices(m, map[string]any{
				"count": 1.0, "alias_name": nil, "requester_id": port,
				"spec": []any{map[string]any{"physical_network": "a", "remote_managed": c.managed}},
			})
			tr, err := (&Options{Release: c.release}).FromPrimitive(m)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(tr.Request.Required, trait); got != c.want {
				t.Errorf("%s is required: %t, want %t", trait, got, c.want)
			}
			if len(tr.Ignored) > 0 {
				t.Errorf("ignored %q, want none", tr.Ignored)
			}
		})
	}
}

func TestRequestedNetworks_RoutedNetworksOn_RefusesPortsAndNetworks(t *testing.T) {
	const list = "nova_request_spec.requested_networks.objects"
	for name, c := range map[string]struct {
		networks []any
		rebuild  bool
		wrong    []string
	}{
		"none named":          {},
		"auto":                {networks: []any{network("auto", nil)}},
		"no network":          {networks: []any{network("none", nil)}},
		"address alone":       {networks: []any{network(nil, nil)}},
		"network":             {networks: []any{network("n", nil)}, wrong: []string{list + "[0].network_id"}},
		"port of a network":   {networks: []any{network("n", port)}, wrong: []string{list + "[0].port_id"}},
		"each by its path":    {networks: []any{network("n", nil), network(nil, port)}, wrong: []string{list + "[0].network_id", list + "[1].port_id"}},
		"rebuild asks nobody": {networks: []any{network("n", nil)}, rebuild: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := primitive(t)
			requestNetworks(m, c.networks...)
			if c.rebuild {
				put(m, "/scheduler_hints", map[string]any{"_nova_check_type": []any{"rebuild"}})
			}
			if tr, err := new(Options).FromPrimitive(m); err != nil || len(tr.Ignored) > 0 {
				t.Fatalf("with the option off: ignored %v, error %v", tr, err)
			}
			_, err := (&Options{RoutedNetworks: true}).FromPrimitive(m)
			refusedBy(t, err, c.wrong, "query_placement_for_routed_network_aggregates is on")
			if asked := RequestedNetworks(m); len(asked) != len(c.wrong) {
				t.Errorf("asked for are %v, want %v", asked, c.wrong)
			}
			tr, err := (&Options{RoutedNetworks: true, Segments: [][]string{}}).FromPrimitive(m)
			if err != nil || len(tr.Request.MemberOf) > 0 {
				t.Errorf("with networks that are not routed: %+v, %v", tr, err)
			}
		})
	}
}

func TestRequestedNetworks_SegmentsKnown_AreSetsOfAggregatesBesideOthers(t *testing.T) {
	const one, two, three = "aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002", "aaaaaaaa-0000-4000-8000-000000000003"
	m := primitive(t)
	requestNetworks(m, network("n", nil), network("n", port))
	want := []RequestedNetwork{
		{Path: "nova_request_spec.requested_networks.objects[0].network_id", Network: "n"},
		{Path: "nova_request_spec.requested_networks.objects[1].port_id", Port: port},
	}
	if got := RequestedNetworks(m); !slices.Equal(got, want) {
		t.Errorf("asked for are %v, want %v", got, want)
	}
	put(m, "/requested_destination", object1("Destination", "1.4", map[string]any{"aggregates": []any{three}}))
	tr, err := (&Options{RoutedNetworks: true, Segments: [][]string{{two, one}, {one}}}).FromPrimitive(m)
	if err != nil || len(tr.Ignored) > 0 {
		t.Fatal(tr, err)
	}
	if got := fmt.Sprint(tr.Request.MemberOf); got != fmt.Sprint([][]string{{three}, {one, two}, {one}}) {
		t.Errorf("aggregates %v", got)
	}
	_, err = (&Options{RoutedNetworks: true, Segments: [][]string{{"no uuid"}}}).FromPrimitive(m)
	refusedBy(t, err, []string{"nova_request_spec.requested_networks[0][0]"}, "is not a uuid")
}

// refusedBy checks that an error names exactly these paths, each with that problem. Without paths,
// err must be nil.
func refusedBy(t *testing.T, err error, paths []string, problem string) {
	t.Helper()
	var e *fault.Error
	if len(paths) == 0 {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	if !errors.As(err, &e) || e.Kind != fault.InvalidRequest {
		t.Fatalf("error %v, want INVALID_REQUEST", err)
	}
	var got []string
	for _, f := range e.Fields {
		if got = append(got, f.Path); !strings.Contains(f.Problem, problem) {
			t.Errorf("%s: %s, want %q", f.Path, f.Problem, problem)
		}
	}
	if !slices.Equal(got, paths) {
		t.Errorf("refused by %q, want %q", got, paths)
	}
}
