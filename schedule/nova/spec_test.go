package nova

import (
	"errors"
	"strings"
	"testing"

	"cellgate/internal/fault"
	"cellgate/schedule"
)

func TestCompile(t *testing.T) {
	flavor := Flavor{VCPUs: 2, MemoryMB: 2048, RootGB: 20, EphemeralGB: 1, SwapMB: 1}
	cases := []struct {
		name string
		spec Spec
		want []schedule.Amount
	}{
		{"swap rounds up", Spec{Flavor: flavor}, []schedule.Amount{{Class: "DISK_GB", N: 22}, {Class: "MEMORY_MB", N: 2048}, {Class: "VCPU", N: 2}}},
		{"from volume", Spec{Flavor: flavor, BootFromVolume: true}, []schedule.Amount{{Class: "DISK_GB", N: 2}, {Class: "MEMORY_MB", N: 2048}, {Class: "VCPU", N: 2}}},
		{"override removes", Spec{Flavor: flavor, Resources: map[string]int64{"DISK_GB": 0, "MEMORY_MB": 0, "VGPU": 3}}, []schedule.Amount{{Class: "VCPU", N: 2}, {Class: "VGPU", N: 3}}},
		{"override beats extra spec", Spec{
			Flavor:    Flavor{ExtraSpecs: map[string]string{"resources:VGPU": "1", "resources:CUSTOM_X": "5"}},
			Resources: map[string]int64{"VGPU": 2},
		}, []schedule.Amount{{Class: "CUSTOM_X", N: 5}, {Class: "VGPU", N: 2}}},
	}
	for _, c := range cases {
		c.spec.Path = "request_spec"
		r, _, err := new(Options).Compile(c.spec)
		if err != nil || dump(r.Resources) != dump(c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, r.Resources, err, c.want)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	ok := Flavor{VCPUs: 1}
	cases := []struct {
		spec Spec
		path string
		says string
	}{
		{Spec{}, "flavor", "no amount"},
		{Spec{Flavor: Flavor{VCPUs: -1}}, "flavor.vcpus", "negative"},
		{Spec{Flavor: ok, Resources: map[string]int64{"DISK": 1}}, `resources["DISK"]`, "unknown resource class"},
		{Spec{Flavor: ok, Resources: map[string]int64{"VGPU": -1}}, `resources["VGPU"]`, "negative"},
		{Spec{Flavor: ok, RequiredTraits: []string{"A"}, ForbiddenTraits: []string{"A"}}, "forbidden_traits[0]", "required as well"},
		{Spec{Flavor: ok, AnyTraits: [][]string{{}}}, "any_traits[0]", "is empty"},
		{Spec{Flavor: ok, MemberOf: [][]string{{}}}, "member_of[0]", "is empty"},
		{Spec{Flavor: ok, MemberOf: [][]string{{"x"}}}, "member_of[0][0]", "not a uuid"},
		{Spec{Flavor: ok, AvailabilityZone: strings.Repeat("z", 256)}, "availability_zone", "bytes"},
		{Spec{Flavor: ok, IgnoreHosts: make([]string, 1025)}, "ignore_hosts", "the most is 1024"},
		{Spec{Flavor: ok, ImageProperties: map[string]string{"trait:A": "forbidden"}}, `image.properties["trait:A"]`, "must be required"},
		{Spec{Flavor: ok, Group: &Group{Policy: "affinity"}}, "instance_group.uuid", "is required"},
	}
	for _, c := range cases {
		c.spec.Path = "request_spec"
		_, _, err := new(Options).Compile(c.spec)
		var e *fault.Error
		if !errors.As(err, &e) || e.Kind != fault.InvalidRequest {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		if f := e.Fields[0]; f.Path != "request_spec."+c.path || !strings.Contains(f.Problem, c.says) {
			t.Errorf("%+v, want %s: %s", f, c.path, c.says)
		}
	}
}

func TestKnownResourceClass(t *testing.T) {
	for class, want := range map[string]bool{
		"VCPU": true, "CUSTOM_A_1": true, "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC": true,
		"CUSTOM_": false, "CUSTOM_a": false, "vcpu": false, "": false, "GPU": false,
		"CUSTOM_" + strings.Repeat("A", 300): false,
	} {
		if got := KnownResourceClass(class); got != want {
			t.Errorf("KnownResourceClass(%q) = %v", class, got)
		}
	}
}

// TestSupportTablesEnd checks that every key finds a row, and that a row that refuses has a reason.
func TestSupportTablesEnd(t *testing.T) {
	for name, rules := range map[string][]rule{
		"extra specs": extraSpecs, "image properties": imageProperties, "hints": schedulerHints,
	} {
		if last := rules[len(rules)-1]; last.key != "*" {
			t.Errorf("%s: the last row is %q, keys may find none", name, last.key)
		}
		for i, r := range rules {
			if r.care == refused && r.why == "" {
				t.Errorf("%s: %s is refused without a reason", name, r.key)
			}
			if first := look(rules, strings.TrimSuffix(r.key, "*")+"x"); strings.HasSuffix(r.key, "*") && r.key != "*:*" && first.key != r.key {
				t.Errorf("%s: row %d, %s, is hidden by %s", name, i, r.key, first.key)
			}
		}
	}
}
