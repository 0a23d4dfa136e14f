package cell

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cellgate/cell/replica"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

func (r *testCell) putFacts(host, namespace, facts string, ifGeneration int64) (int64, error) {
	out, err := r.cells.PutFacts(context.Background(), &cellv1.PutFactsRequest{HostUuid: host, Namespace: namespace, Facts: facts, IfGeneration: ifGeneration})
	return out.GetGeneration(), err
}

// namespaces returns a host's facts by namespace, with their sources.
func (r *testCell) namespaces(host string) map[string]*cellgatev1.HostNamespace {
	r.t.Helper()
	_, out := r.listHosts(&cellv1.ListHostsRequest{HostUuid: host, WantNamespaces: true})
	got := map[string]*cellgatev1.HostNamespace{}
	for _, n := range out.GetHosts()[0].GetNamespaces() {
		got[n.GetName()] = n
	}
	return got
}

func TestFactsThatServicesPutStayWhateverTheAgentReports(t *testing.T) {
	r := start(t, newStore(t))
	state := plainState(1, 8)
	r.register(state)
	host := state.GetHostUuid()
	first, err := r.putFacts(host, "cinder", `{"free_gb": 800}`, 0)
	if err != nil || first == 0 {
		t.Fatalf("generation %d, %v", first, err)
	}
	if got := r.namespaces(host)["cinder"]; got.GetGeneration() != first || got.GetByAgent() || got.GetFacts().AsMap()["free_gb"] != 800.0 {
		t.Errorf("shown is %v", got)
	}
	state.Version++
	state.IoWorkload = 3
	r.register(state)
	if got := r.namespaces(host)["cinder"]; got.GetGeneration() != first {
		t.Errorf("after a report %v is shown", got)
	}
	if _, out := r.listHosts(&cellv1.ListHostsRequest{}); len(out.GetHosts()[0].GetNamespaces()) != 0 {
		t.Error("a list shows namespaces")
	}
	if _, err := r.putFacts(host, "cinder", `{}`, first+1); fault.KindOf(err) != fault.StaleGeneration {
		t.Errorf("of another generation: %v", err)
	}
	if _, err := r.putFacts(host, "cinder", "", first); err != nil {
		t.Fatal(err)
	}
	if got := r.namespaces(host); len(got) != 0 {
		t.Errorf("after it was taken away %v is shown", got)
	}
}

// PutFacts names the host's generation that it is based on, and is refused if newer facts were put.
// Equal facts take a generation too, but leave the table unchanged.
func TestFactsThatComeLateAreRefused(t *testing.T) {
	r := start(t, newStore(t))
	state := plainState(1, 8)
	r.register(state)
	put := func(facts string, asOf int64) error {
		_, err := r.cells.PutFacts(t.Context(), &cellv1.PutFactsRequest{HostUuid: state.GetHostUuid(), Namespace: "cinder", Facts: facts, AsOfGeneration: asOf})
		return err
	}
	known := func() int64 { return r.host(1).GetGeneration() }
	first := known()
	if err := put(`{"a":1}`, first); err != nil {
		t.Fatal(err)
	}
	table, second := r.cell.versions.Current(), known()
	if err := put(`{"a":1}`, second); err != nil {
		t.Fatal(err)
	}
	if r.cell.versions.Current() != table {
		t.Error("the same facts made another table")
	}
	if got := r.namespaces(state.GetHostUuid())["cinder"]; got.GetGeneration() != second+1 || known() != second+1 {
		t.Errorf("the same facts over generation %d are shown as %v", second, got)
	}
	var e *fault.Error
	if err := put(`{"a":2}`, second); !errors.As(err, &e) || e.Kind != fault.StaleGeneration || e.Metadata["generation"] != fmt.Sprint(second+1) {
		t.Errorf("facts over generation %d are answered with %v", second, err)
	}
	if err := put("", second+1); err != nil {
		t.Fatal(err)
	}
	if err := put(`{"a":2}`, second+1); fault.KindOf(err) != fault.StaleGeneration {
		t.Errorf("facts that were put before they were taken away: %v", err)
	}
}

func TestBadFactsAreRefusedByTheirField(t *testing.T) {
	r := start(t, newStore(t))
	state := plainState(1, 8)
	r.register(state)
	for _, tt := range []struct{ host, namespace, facts, field string }{
		{"x", "cinder", "{}", "host_uuid"},
		{state.GetHostUuid(), "Cinder", "{}", "namespace"},
		{state.GetHostUuid(), "cinder", "[]", "facts"},
		{state.GetHostUuid(), "cinder", strings.Repeat(`{"a":`, 17) + "1" + strings.Repeat("}", 17), "facts"},
	} {
		_, err := r.putFacts(tt.host, tt.namespace, tt.facts, 0)
		if fault.KindOf(err) != fault.InvalidRequest || !strings.Contains(err.Error(), tt.field) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	if _, err := r.putFacts(shardtest.HostID(99), "cinder", "{}", 0); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of an unknown host: %v", err)
	}
}

func TestTheHostsOwnNamespacesStandBehindThosePut(t *testing.T) {
	h := shardtest.NewHost(1, 8).Host
	h.Facts.Namespaces = `{"cinder":{"by":"agent"},"rack":{"power":1}}`
	row := &replica.HostRow{Host: &h, Namespaces: map[string]*shard.Namespace{
		"cinder": {Name: "cinder", Facts: `{"by":"service"}`}, "neutron": {Name: "neutron"},
	}}
	got := row.FactTexts()
	if len(got) != 2 || got["cinder"] != `{"by":"service"}` || got["rack"] != `{"power":1}` {
		t.Errorf("said is %v", got)
	}
}

func TestWhatAHostSaysOfItself(t *testing.T) {
	r := start(t, newStore(t))
	state := plainState(1, 8)
	state.Facts = nil
	state.Namespaces = []*agentv1.Namespace{{Name: "rack", Facts: `{"power": 3, "row": "<b>"}`}, {Name: "cinder", Facts: `{"by": "agent"}`}}
	r.register(state)
	host := state.GetHostUuid()
	got := r.namespaces(host)
	if rack := got["rack"]; !rack.GetByAgent() || rack.GetGeneration() != 0 || rack.GetFacts().AsMap()["row"] != "<b>" || len(got) != 2 {
		t.Fatalf("shown is %v", got)
	}
	if _, err := r.putFacts(host, "cinder", `{"by": "service"}`, -1); err != nil {
		t.Fatal(err)
	}
	if got := r.namespaces(host)["cinder"]; got.GetByAgent() || got.GetFacts().AsMap()["by"] != "service" {
		t.Errorf("shown is %v", got)
	}
	if _, err := r.putFacts(host, "cinder", "", 0); err != nil {
		t.Fatal(err)
	}
	if got := r.namespaces(host)["cinder"]; !got.GetByAgent() || got.GetFacts().AsMap()["by"] != "agent" {
		t.Errorf("shown is %v", got)
	}
	state.Version++
	state.Namespaces = nil
	r.register(state)
	if got := r.namespaces(host); len(got) != 0 {
		t.Errorf("shown is %v", got)
	}
}

func TestBadNamespacesOfAHostAreNamed(t *testing.T) {
	large := `{"a":"` + strings.Repeat("x", 60_000) + `"}`
	for field, list := range map[string][]*agentv1.Namespace{
		"namespaces[0].name":  {{Name: "Rack", Facts: "{}"}},
		"namespaces[1].name":  {{Name: "rack", Facts: "{}"}, {Name: "rack", Facts: "{}"}},
		"namespaces[0].facts": {{Name: "rack", Facts: "[]"}},
		"namespaces": {
			{Name: "a", Facts: large}, {Name: "b", Facts: large}, {Name: "c", Facts: large}, {Name: "d", Facts: large}, {Name: "e", Facts: large},
		},
	} {
		state := plainState(1, 8)
		state.Namespaces = list
		_, err := readHost(state)
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.InvalidRequest || len(f.Fields) != 1 || f.Fields[0].Path != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
