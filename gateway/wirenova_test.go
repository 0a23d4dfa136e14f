package gateway

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cellgate/internal/limits"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// novaFrom and optionsFrom are what a cell does with the wire forms.
func novaFrom(in *cellv1.NovaRequest) *schedule.NovaRequest {
	if in == nil {
		return nil
	}
	f := in.GetFlavor()
	n := &schedule.NovaRequest{
		Flavor: schedule.Flavor{
			ID: f.GetId(), Name: f.GetName(), VCPUs: f.GetVcpus(), MemoryMB: f.GetMemoryMb(), RootGB: f.GetRootGb(),
			EphemeralGB: f.GetEphemeralGb(), SwapMB: f.GetSwapMb(),
		},
		ProjectID: in.GetProjectId(), Rebuild: in.GetRebuild(),
		NUMA: numaFrom(in.GetNuma()), PCI: pciFrom(in.GetPciRequests()), NeedThreads: in.GetNeedThreads(),
	}
	if w := in.GetNetworks(); w != nil {
		n.Networks = &schedule.NetworkNeeds{Physnets: w.GetPhysnets(), Tunneled: w.GetTunneled()}
	}
	for _, p := range f.GetExtraSpecs() {
		n.Flavor.ExtraSpecs = append(n.Flavor.ExtraSpecs, schedule.Pair{Key: p.GetKey(), Value: p.GetValue()})
	}
	if in.GetImage() != nil {
		n.Image = &schedule.Image{ID: in.GetImage().GetId()}
		for _, p := range in.GetImage().GetProperties() {
			n.Image.Properties = append(n.Image.Properties, schedule.Property{Name: p.GetName(), Text: p.GetText(), Zero: p.GetZero()})
		}
	}
	for _, h := range in.GetHints() {
		n.Hints = append(n.Hints, schedule.Hint{Name: h.GetName(), Values: h.GetValues()})
	}
	for _, h := range in.GetRetry() {
		n.Retry = append(n.Retry, schedule.RetryHost{Host: h.GetHost(), Node: h.GetNode()})
	}
	return n
}

func numaFrom(in *cellv1.GuestNuma) *schedule.InstanceNUMA {
	if in == nil {
		return nil
	}
	n := &schedule.InstanceNUMA{IsolateEmulator: in.GetIsolateEmulator(), Release: in.GetRelease()}
	for _, c := range in.GetCells() {
		n.Cells = append(n.Cells, schedule.InstanceCell{
			ID: c.GetId(), CPUs: int(c.GetCpus()), Dedicated: int(c.GetDedicated()), MemoryMB: c.GetMemoryMb(),
			PageSize: c.GetPageSize(), Policy: c.GetCpuPolicy(), Threads: c.GetThreadPolicy(),
		})
	}
	return n
}

func pciFrom(in []*cellv1.PciRequest) (out []schedule.PCIRequest) {
	for _, r := range in {
		x := schedule.PCIRequest{Count: r.GetCount(), Policy: r.GetNumaPolicy()}
		for _, s := range r.GetSpecs() {
			spec := schedule.PCISpec{}
			for _, p := range s.GetProperties() {
				spec = append(spec, schedule.PCIProperty{Key: p.GetKey(), Value: p.GetValue(), None: p.GetNone()})
			}
			x.Specs = append(x.Specs, spec)
		}
		out = append(out, x)
	}
	return out
}

func optionsFrom(in *cellv1.Options) *schedule.Options {
	if in == nil {
		return nil
	}
	ratios := func(in []*cellv1.Ratio) (out []schedule.Ratio) {
		for _, r := range in {
			out = append(out, schedule.Ratio{Name: r.GetName(), Ratio: r.GetRatio()})
		}
		return out
	}
	return &schedule.Options{
		MaxIOOpsPerHost: in.GetMaxIoOpsPerHost(), MaxInstancesPerHost: in.GetMaxInstancesPerHost(),
		IsolatedHosts: in.GetIsolatedHosts(), IsolatedImages: in.GetIsolatedImages(),
		RestrictIsolated:        in.GetRestrictIsolatedHostsToIsolatedImages(),
		DefaultArchitecture:     in.GetImagePropertiesDefaultArchitecture(),
		ImageIsolationNamespace: in.GetAggregateImagePropertiesIsolationNamespace(),
		ImageIsolationSeparator: in.GetAggregateImagePropertiesIsolationSeparator(),
		MetricsSetting:          ratios(in.GetMetricsWeightSetting()), MetricsRequired: in.GetMetricsRequired(),
		MetricsUnavailable: in.GetMetricsWeightOfUnavailable(), ImagePropertySetting: ratios(in.GetImagePropsWeightSetting()),
		SubsetSize: int(in.GetHostSubsetSize()), ExactTenantKey: in.GetExactTenantKey(), StrictNova: in.GetStrictNova(),
	}
}

// TestNovaGoesToTheWireWhole holds that every field of the core's types arrives:
// rapid fills them all, by reflection, new ones too.
func TestNovaGoesToTheWireWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nova := rapid.Make[*schedule.NovaRequest]().Draw(t, "nova")
		options := rapid.Make[*schedule.Options]().Draw(t, "options")
		if options != nil {
			options.SubsetSize = min(max(0, options.SubsetSize), limits.Subset) // what cells take
		}
		raw, err := proto.Marshal(placementOf(&schedule.Request{Nova: nova}, &schedule.Rules{Options: options}))
		if err != nil {
			t.Fatal(err)
		}
		var p cellv1.Placement
		if err := proto.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		if got := novaFrom(p.GetNova()); !alike(got, nova) {
			t.Errorf("got  %+v\nwant %+v", got, nova)
		}
		if got := optionsFrom(p.GetRules().GetOptions()); !alike(got, options) {
			t.Errorf("got  %+v\nwant %+v", got, options)
		}
	})
}

// TestProposalComesBackWhole holds the same of a cell's answer.
func TestProposalComesBackWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Make[schedule.Proposal]().Draw(t, "proposal")
		want.Hosts, want.Passed = int(int32(want.Hosts)), int(int32(want.Passed))
		for i := range want.Rejects {
			want.Rejects[i].Hosts = int(int32(want.Rejects[i].Hosts))
		}
		for i := range want.Warnings {
			want.Warnings[i].Hosts = int(int32(want.Warnings[i].Hosts))
		}
		for i := range want.GroupHosts {
			want.GroupHosts[i].Members = int(int32(want.GroupHosts[i].Members))
		}
		for i := range want.Candidates {
			// One number a weigher; a node without a name is not told from one that is
			// named as its host.
			c := &want.Candidates[i]
			c.Raw = slices.Grow(c.Raw, len(want.Bounds))[:len(want.Bounds)]
			if c.Multipliers != nil {
				c.Multipliers = slices.Grow(c.Multipliers, len(want.Bounds))[:len(want.Bounds)]
			}
			c.NodeName = cmp.Or(c.NodeName, c.ServiceHost)
			if c.Allocation != nil {
				for k := range c.Allocation.Amounts {
					a := &c.Allocation.Amounts[k]
					a.N = max(1, a.N&math.MaxInt32)
				}
			}
		}
		raw, err := proto.Marshal(proposalTo(&want))
		if err != nil {
			t.Fatal(err)
		}
		var p cellv1.Proposal
		if err := proto.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		got, err := proposalFrom(&p)
		if err != nil {
			t.Fatal(err)
		}
		if !alike(*got, want) {
			t.Errorf("got  %+v\nwant %+v", *got, want)
		}
	})
}

// alike is reflect.DeepEqual for which no entries and none are the same.
func alike(a, b any) bool { return equal(reflect.ValueOf(a), reflect.ValueOf(b)) }

func equal(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return equal(a.Elem(), b.Elem())
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equal(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for i := range a.NumField() {
			if !equal(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Interface() == b.Interface()
}

// A claim keeps of its instance what later requests ask: the flavor, the image only
// where it is weighed, NUMA cells and devices.
func TestGuestOf(t *testing.T) {
	n := &schedule.NovaRequest{
		Flavor: schedule.Flavor{ID: "7"}, Image: &schedule.Image{ID: "i", Properties: []schedule.Property{{Name: "os_distro", Text: "debian"}}},
	}
	plain, weighed := &schedule.Rules{}, &schedule.Rules{Weighers: []schedule.Weigher{{Name: schedule.ImagePropertiesWeigher}}}
	if g := guestOf(&schedule.Request{Nova: n}, plain); g.GetFlavorId() != "7" || g.GetImage() != nil || g.GetNuma() != nil {
		t.Errorf("without the weigher: %v", g)
	}
	if g := guestOf(&schedule.Request{Nova: n}, weighed); len(g.GetImage().GetProperties()) != 1 {
		t.Errorf("with the weigher: %v", g)
	}
	n.NUMA = &schedule.InstanceNUMA{Cells: []schedule.InstanceCell{{CPUs: 2}}}
	n.PCI = []schedule.PCIRequest{{Count: 1}}
	n.Networks = &schedule.NetworkNeeds{Tunneled: true}
	g := guestOf(&schedule.Request{Nova: n}, plain)
	if len(g.GetNuma().GetCells()) != 1 || len(g.GetPciRequests()) != 1 || !g.GetNetworks().GetTunneled() {
		t.Errorf("hardware: %v", g)
	}
	if guestOf(&schedule.Request{Nova: &schedule.NovaRequest{}}, weighed) != nil || guestOf(&schedule.Request{}, plain) != nil {
		t.Error("nothing to keep became something")
	}
}
