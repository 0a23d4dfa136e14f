package proposing

import (
	"math"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"cellgate/internal/limits"
	"cellgate/internal/proposing/proposingtest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// TestNovaComesBackFromTheWire holds that every field of the core's types arrives:
// rapid fills them all, by reflection, new ones too.
func TestNovaComesBackFromTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nova := rapid.Make[*schedule.NovaRequest]().Draw(t, "nova")
		options := rapid.Make[*schedule.Options]().Draw(t, "options")
		inRange(nova)
		if o := options; o != nil {
			o.SubsetSize = int(uint(o.SubsetSize) % limits.Subset)
			o.MetricsUnavailable = small(o.MetricsUnavailable)
			for _, ratios := range [][]schedule.Ratio{o.MetricsSetting, o.ImagePropertySetting} {
				for i := range ratios {
					ratios[i].Ratio = small(ratios[i].Ratio)
				}
			}
		}
		raw, err := proto.Marshal(&cellv1.Placement{Nova: proposingtest.Nova(nova), Rules: &cellv1.Rules{Options: proposingtest.Options(options)}})
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

func small(x float64) float64 { return max(-limits.Weight, min(limits.Weight, x)) }

// A factor that would make weights infinite is refused by its path.
func TestOptionsThatCannotBe(t *testing.T) {
	var r Fields
	r.options(&cellv1.Options{
		HostSubsetSize: limits.Subset + 1, MetricsWeightOfUnavailable: math.NaN(),
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
