package samples

import (
	"strings"
	"testing"

	"buf.build/go/protovalidate"

	"cellgate/gateway/selection"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/schedule/nova"
)

// TestSamplesAreGoodRequests holds that every sample is valid and can be compiled:
// what is refused is refused for want of a host.
func TestSamplesAreGoodRequests(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 64 {
		t.Errorf("%d samples, there are to be at least 64", len(all))
	}
	counts := map[string]int{}
	instances := map[string]string{}
	ids := map[string]string{}
	for _, s := range all {
		counts[s.Expect]++
		if err := protovalidate.Validate(s.Request); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		for _, u := range s.Request.GetInstanceUuids() {
			if other, twice := instances[u]; twice {
				t.Errorf("%s: instance %s is in %s as well", s.Name, u, other)
			}
			instances[u] = s.Name
		}
		if other, twice := ids[s.Request.GetRequestId()]; twice || s.Request.GetRequestId() == "" {
			t.Errorf("%s: request_id %q is in %q as well", s.Name, s.Request.GetRequestId(), other)
		}
		ids[s.Request.GetRequestId()] = s.Name
		compile(t, s, counts)
		compileWithMore(t, s)
	}
	t.Logf("samples: %d, %v; %d instances", len(all), counts, len(instances))
	if counts[Refused] < 8 || counts["nova_request_spec"] < 40 || counts["request_spec"] < 15 {
		t.Errorf("the sample lacks variety: %v", counts)
	}
}

// compile gives the request of a sample; false after reporting what is wrong.
func compile(t *testing.T, s Sample, counts map[string]int) (schedule.Request, bool) {
	t.Helper()
	if typed := s.Request.GetRequestSpec(); typed != nil {
		counts["request_spec"]++
		r, _, err := new(nova.Options).Compile(specOf(typed))
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		return r, err == nil
	}
	counts["nova_request_spec"]++
	tr, err := new(nova.Options).FromPrimitive(s.Request.GetNovaRequestSpec().AsMap())
	if err != nil {
		t.Errorf("%s: %v", s.Name, err)
		return schedule.Request{}, false
	}
	if n := len(s.Request.GetInstanceUuids()); tr.NumInstances != n {
		t.Errorf("%s: num_instances %d, instance_uuids %d", s.Name, tr.NumInstances, n)
	}
	if tr.InstanceUUID != s.Request.GetInstanceUuids()[0] {
		t.Errorf("%s: instance_uuid %s is not the first of instance_uuids", s.Name, tr.InstanceUUID)
	}
	for _, path := range tr.Ignored {
		if !strings.Contains(path, ".image.properties[") && !strings.Contains(path, ".extra_specs[") {
			t.Errorf("%s: %s is not read", s.Name, path)
		}
	}
	return tr.Request, true
}

// compileWithMore holds that a sample can be compiled with Nova's request filters on, too:
// an operator's nova.conf may have them.
func compileWithMore(t *testing.T, s Sample) {
	t.Helper()
	on := &nova.Options{LimitTenants: true, ImageTypeSupport: true, IsolateAggregates: true, ImageMetadata: true}
	var err error
	if typed := s.Request.GetRequestSpec(); typed != nil {
		_, _, err = on.Compile(specOf(typed))
	} else {
		_, err = on.FromPrimitive(s.Request.GetNovaRequestSpec().AsMap())
	}
	if err != nil {
		t.Errorf("%s, with Nova's request filters on: %v", s.Name, err)
	}
}

// specOf is the gateway's reading of a typed form, in the sample's fleet.
func specOf(r *cellgatev1.RequestSpec) nova.Spec {
	s := selection.SpecOf(r)
	if s.Destination != nil {
		if n, named := strings.CutPrefix(s.Destination.Cell, "cell"); named {
			s.Destination.Cell = cellUUID(n)
		}
	}
	return s
}
