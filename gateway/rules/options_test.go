package rules

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/limits"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/schedule/nova"
)

// Every option reaches the core or the translation, where it changes something.
func TestEveryOptionReachesTheCore(t *testing.T) {
	if coreOptions(nil) != nil {
		t.Error("no options are some")
	}
	none := coreOptions(&Options{})
	changed, translated := map[string]bool{}, 0
	fields := reflect.TypeFor[Options]()
	for i := range fields.NumField() {
		o := &Options{}
		switch v := reflect.ValueOf(o).Elem().Field(i); v.Kind() {
		case reflect.Int:
			v.SetInt(7)
		case reflect.Float64:
			v.SetFloat(7)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.String:
			v.SetString("x")
			if fields.Field(i).Name == "Release" {
				v.SetString("ocata")
			}
		case reflect.Slice:
			v.Set(reflect.ValueOf([]string{"a = 1.5", "b=-2"}))
		default:
			t.Fatalf("%s: what is a %v?", fields.Field(i).Name, v.Kind())
		}
		was, is := reflect.ValueOf(none).Elem(), reflect.ValueOf(coreOptions(o)).Elem()
		n := 0
		if !reflect.DeepEqual(*translationOptions(o, nil), nova.Options{}) {
			n, translated = n+1, translated+1
		}
		for j := range is.NumField() {
			if !reflect.DeepEqual(was.Field(j).Interface(), is.Field(j).Interface()) {
				changed[is.Type().Field(j).Name] = true
				n++
			}
		}
		want := 1
		if name := fields.Field(i).Name; name == "Strict" || name == "Release" {
			want = 2
		}
		if n != want {
			t.Errorf("%s changes %d options of the core, and of the translation, want %d", fields.Field(i).Name, n, want)
		}
	}
	// The aliases of PCI devices are none of these options.
	if want := reflect.TypeFor[nova.Options]().NumField() - 2; translated != want {
		t.Errorf("%d options of the translation can be set, of %d", translated, want)
	}
	if want := reflect.TypeFor[schedule.Options]().NumField(); len(changed) != want {
		t.Errorf("%d options of the core can be set, of %d: %v", len(changed), want, changed)
	}
}

func TestFactorsThatCannotBeReadAreLeftOut(t *testing.T) {
	got := ratios([]string{"cpu.percent = 1.5", "x", "=2", "y=z", "m=-2"})
	if want := []schedule.Ratio{{Name: "cpu.percent", Ratio: 1.5}, {Name: "m", Ratio: -2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A number of best hosts above the limit of cells counts as the limit, in the gateway and in cells.
func TestSubsetSizeStaysWithinWhatCellsTake(t *testing.T) {
	for given, want := range map[int]int{-5: 0, 0: 0, 1: 1, limits.Subset: limits.Subset, limits.Subset + 1: limits.Subset, 1 << 32: limits.Subset, 1<<32 + 3: limits.Subset} {
		p := &cellv1.Placement{}
		if err := proto.Unmarshal(wire.EncodePlacement(&schedule.Request{}, &schedule.Rules{Options: &schedule.Options{SubsetSize: given}}), p); err != nil {
			t.Fatal(err)
		}
		if got := p.GetRules().GetOptions().GetHostSubsetSize(); int(got) != want {
			t.Errorf("%d is %d to cells, want %d", given, got, want)
		}
		if got := coreOptions(&Options{HostSubsetSize: given}).SubsetSize; got > limits.Subset || got > 0 && got != want {
			t.Errorf("%d is %d to the plan, want %d", given, got, want)
		}
	}
}
