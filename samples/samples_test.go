package samples

import (
	"strings"
	"testing"

	"buf.build/go/protovalidate"

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
		r, _, err := nova.Compile(specOf(typed))
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		return r, err == nil
	}
	counts["nova_request_spec"]++
	tr, err := nova.FromPrimitive(s.Request.GetNovaRequestSpec().AsMap())
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

// specOf takes a typed form over field by field.
func specOf(r *cellgatev1.RequestSpec) nova.Spec {
	f := r.GetFlavor()
	s := nova.Spec{
		Path: "request_spec",
		Flavor: nova.Flavor{
			VCPUs: int64(f.GetVcpus()), MemoryMB: int64(f.GetMemoryMb()), RootGB: int64(f.GetRootGb()),
			EphemeralGB: int64(f.GetEphemeralGb()), SwapMB: int64(f.GetSwapMb()), ExtraSpecs: f.GetExtraSpecs(),
		},
		ImageProperties:     r.GetImage().GetProperties(),
		Resources:           map[string]int64{},
		RequiredTraits:      r.GetRequiredTraits(),
		ForbiddenTraits:     r.GetForbiddenTraits(),
		ForbiddenAggregates: r.GetForbiddenAggregates(),
		IgnoreHosts:         r.GetIgnoreHosts(),
		ForceHosts:          r.GetForceHosts(),
		ForceNodes:          r.GetForceNodes(),
		AvailabilityZone:    r.GetAvailabilityZone(),
		Hints:               map[string][]string{},
	}
	for name, values := range r.GetSchedulerHints() {
		s.Hints[name] = values.GetValues()
	}
	if d := r.GetRequestedDestination(); d != nil {
		s.Destination = &schedule.Destination{
			Host: d.GetHost(), Node: d.GetNode(), Cell: d.GetCell(), AllowCrossCellMove: d.GetAllowCrossCellMove(),
		}
		if n, named := strings.CutPrefix(d.GetCell(), "cell"); named {
			s.Destination.Cell = cellUUID(n)
		}
	}
	for class, n := range r.GetResources() {
		s.Resources[class] = int64(n)
	}
	for _, set := range r.GetAnyTraits() {
		s.AnyTraits = append(s.AnyTraits, set.GetTraits())
	}
	for _, set := range r.GetMemberOf() {
		s.MemberOf = append(s.MemberOf, set.GetAggregates())
	}
	if g := r.GetInstanceGroup(); g != nil {
		s.Group = &nova.Group{
			UUID: g.GetUuid(), Policy: g.GetPolicy(), MaxPerHost: int64(g.GetMaxServerPerHost()),
			Members: g.GetMembers(), Hosts: g.GetHosts(),
		}
	}
	return s
}
