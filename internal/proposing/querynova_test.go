package proposing

import (
	"math"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// wireNova is the writing side of what only Nova's own filters read.
func wireNova(n *schedule.NovaRequest) *cellv1.NovaRequest {
	if n == nil {
		return nil
	}
	f := &n.Flavor
	out := &cellv1.NovaRequest{
		Flavor: &cellv1.NovaFlavor{
			Id: f.ID, Name: f.Name, Vcpus: f.VCPUs, MemoryMb: f.MemoryMB, RootGb: f.RootGB,
			EphemeralGb: f.EphemeralGB, SwapMb: f.SwapMB,
		},
		ProjectId:   n.ProjectID,
		Rebuild:     n.Rebuild,
		NeedThreads: n.NeedThreads,
	}
	wireNUMA(out, n)
	for _, p := range f.ExtraSpecs {
		out.Flavor.ExtraSpecs = append(out.Flavor.ExtraSpecs, &cellv1.Pair{Key: p.Key, Value: p.Value})
	}
	if n.Image != nil {
		out.Image = &cellv1.NovaImage{Id: n.Image.ID}
		for _, p := range n.Image.Properties {
			out.Image.Properties = append(out.Image.Properties, &cellv1.ImageProperty{Name: p.Name, Text: p.Text, Zero: p.Zero})
		}
	}
	for _, h := range n.Hints {
		out.Hints = append(out.Hints, &cellv1.NovaHint{Name: h.Name, Values: h.Values})
	}
	for _, r := range n.Retry {
		out.Retry = append(out.Retry, &cellv1.RetryHost{Host: r.Host, Node: r.Node})
	}
	return out
}

// wireOptions is the writing side of options; nil are Nova's defaults.
func wireOptions(o *schedule.Options) *cellv1.Options {
	if o == nil {
		return nil
	}
	return &cellv1.Options{
		MaxIoOpsPerHost: o.MaxIOOpsPerHost, MaxInstancesPerHost: o.MaxInstancesPerHost,
		IsolatedHosts: o.IsolatedHosts, IsolatedImages: o.IsolatedImages,
		RestrictIsolatedHostsToIsolatedImages: o.RestrictIsolated,
		ImagePropertiesDefaultArchitecture:    o.DefaultArchitecture,

		AggregateImagePropertiesIsolationNamespace: o.ImageIsolationNamespace,
		AggregateImagePropertiesIsolationSeparator: o.ImageIsolationSeparator,

		MetricsWeightSetting: wireRatios(o.MetricsSetting), MetricsRequired: o.MetricsRequired,
		MetricsWeightOfUnavailable: o.MetricsUnavailable, ImagePropsWeightSetting: wireRatios(o.ImagePropertySetting),
		HostSubsetSize: int32(o.SubsetSize), ExactTenantKey: o.ExactTenantKey, StrictNova: o.StrictNova,
	}
}

func wireRatios(in []schedule.Ratio) []*cellv1.Ratio {
	var out []*cellv1.Ratio
	for _, r := range in {
		out = append(out, &cellv1.Ratio{Name: r.Name, Ratio: r.Ratio})
	}
	return out
}

// TestNovaComesBackFromTheWire holds that every field of the core's types arrives:
// rapid fills them all, by reflection, new ones too.
func TestNovaComesBackFromTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nova := rapid.Make[*schedule.NovaRequest]().Draw(t, "nova")
		options := rapid.Make[*schedule.Options]().Draw(t, "options")
		inRange(nova)
		if o := options; o != nil {
			o.SubsetSize = int(uint(o.SubsetSize) % maxSubset)
			o.MetricsUnavailable = small(o.MetricsUnavailable)
			for _, ratios := range [][]schedule.Ratio{o.MetricsSetting, o.ImagePropertySetting} {
				for i := range ratios {
					ratios[i].Ratio = small(ratios[i].Ratio)
				}
			}
		}
		raw, err := proto.Marshal(&cellv1.Placement{Nova: wireNova(nova), Rules: &cellv1.Rules{Options: wireOptions(options)}})
		if err != nil {
			t.Fatal(err)
		}
		var p cellv1.Placement
		if err := proto.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		var r Fields
		if got := r.request(&p).Nova; !alike(got, nova) {
			t.Errorf("got  %+v\nwant %+v", got, nova)
		}
		if got := r.rules(p.GetRules()).Options; !alike(got, options) {
			t.Errorf("got  %+v\nwant %+v", got, options)
		}
		if len(r.bad) > 0 {
			t.Errorf("problems: %v", r.bad)
		}
	})
}

func small(x float64) float64 { return max(-maxWeight, min(maxWeight, x)) }

// A factor that would make weights infinite is refused by its path.
func TestOptionsThatCannotBe(t *testing.T) {
	var r Fields
	r.options(&cellv1.Options{
		HostSubsetSize: maxSubset + 1, MetricsWeightOfUnavailable: math.NaN(),
		ImagePropsWeightSetting: []*cellv1.Ratio{{Name: "os_distro", Ratio: math.Inf(1)}},
	})
	if len(r.bad) != 3 || r.bad[2].Path != "placement.rules.options.image_props_weight_setting[0].ratio" {
		t.Errorf("problems: %v", r.bad)
	}
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
