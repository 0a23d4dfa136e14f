package wire

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/expression"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// filler sets every field of a value, by reflection, to a value that no other field has and that
// decoding accepts.
type filler struct {
	t *testing.T
	n int
}

// special are the types whose values must satisfy more than their kind.
var special = map[reflect.Type]func(f *filler) any{
	reflect.TypeFor[schedule.Policy](): func(*filler) any { return schedule.AntiAffinity },
	reflect.TypeFor[schedule.Expression](): func(f *filler) any {
		made, err := expression.Compile(fmt.Sprintf("host.instances < %d", f.next()))
		if err != nil {
			f.t.Fatal(err)
		}
		return made
	},
	reflect.TypeFor[schedule.WeighExpression](): func(f *filler) any {
		made, err := expression.CompileWeight(fmt.Sprintf("host.free[\"VCPU\"] + %d.0", f.next()))
		if err != nil {
			f.t.Fatal(err)
		}
		return made
	},
}

func (f *filler) next() int { f.n++; return f.n }

// fill sets v. path is for the error about an unknown kind.
func (f *filler) fill(v reflect.Value, path string) {
	if made := special[v.Type()]; made != nil {
		v.Set(reflect.ValueOf(made(f)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d", f.next()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.next()))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(f.next()) % 256)
	case reflect.Float64:
		v.SetFloat(float64(f.next()) + 0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	default:
		f.t.Fatalf("%s: the filler knows no %s", path, v.Type())
	}
}

// filled gives a value of T with all fields set.
func filled[T any](t *testing.T) *T {
	f := &filler{t: t}
	v := new(T)
	f.fill(reflect.ValueOf(v).Elem(), reflect.TypeFor[T]().Name())
	return v
}

// onlyField gives, for each field of T, a value of T with that field alone set.
func onlyField[T any](t *testing.T) map[string]*T {
	all := map[string]*T{}
	for i := range reflect.TypeFor[T]().NumField() {
		v := new(T)
		f := &filler{t: t}
		name := reflect.TypeFor[T]().Field(i).Name
		f.fill(reflect.ValueOf(v).Elem().Field(i), name)
		all[name] = v
	}
	return all
}

// overTheWire marshals and unmarshals a message.
func overTheWire[M proto.Message](t *testing.T, in, out M) M {
	t.Helper()
	b, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func decodePlacement(t *testing.T, b []byte) (*schedule.Request, *schedule.Rules) {
	t.Helper()
	p := &cellv1.Placement{}
	if err := proto.Unmarshal(b, p); err != nil {
		t.Fatal(err)
	}
	var r Fields
	request, rules := r.Request(p), r.Rules(p.GetRules())
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return request, rules
}

// equal compares decoded values. Expressions are equal if their texts are.
func equal(a, b any) error { return difference(reflect.ValueOf(a), reflect.ValueOf(b), "") }

func difference(a, b reflect.Value, path string) error {
	if a.IsValid() != b.IsValid() {
		return fmt.Errorf("%s: %v, want %v", path, a, b)
	}
	switch a.Kind() {
	case reflect.Interface, reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return fmt.Errorf("%s is nil: %t, want %t", path, a.IsNil(), b.IsNil())
			}
			return nil
		}
		if text, is := a.Interface().(interface{ Text() string }); is {
			if want := b.Interface().(interface{ Text() string }).Text(); text.Text() != want {
				return fmt.Errorf("%s: %q, want %q", path, text.Text(), want)
			}
			return nil
		}
		return difference(a.Elem(), b.Elem(), path)
	case reflect.Func:
		return nil
	case reflect.Struct:
		for i := range a.NumField() {
			if err := difference(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name); err != nil {
				return err
			}
		}
		return nil
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return fmt.Errorf("%s has %d, want %d", path, a.Len(), b.Len())
		}
		for i := range a.Len() {
			if err := difference(a.Index(i), b.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	}
	if a.Interface() != b.Interface() {
		return fmt.Errorf("%s: %v, want %v", path, a, b)
	}
	return nil
}

func TestRequest_EveryField_RoundTrips(t *testing.T) {
	requests := onlyField[schedule.Request](t)
	requests["all"], requests["none"] = filled[schedule.Request](t), &schedule.Request{}
	requests["an empty isolation"] = &schedule.Request{Isolated: &schedule.Isolation{}}
	for name, nova := range onlyField[schedule.NovaRequest](t) {
		requests["Nova."+name] = &schedule.Request{Nova: nova}
	}
	for name, want := range requests {
		got, _ := decodePlacement(t, EncodePlacement(want, &schedule.Rules{}))
		if err := equal(got, want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRules_EveryField_RoundTrip(t *testing.T) {
	rules := onlyField[schedule.Rules](t)
	rules["all"], rules["none"] = filled[schedule.Rules](t), &schedule.Rules{}
	for name, options := range onlyField[schedule.Options](t) {
		rules["Options."+name] = &schedule.Rules{Options: options}
	}
	for name, want := range rules {
		_, got := decodePlacement(t, EncodePlacement(&schedule.Request{}, want))
		if err := equal(got, want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestQuery_EveryField_RoundTrips(t *testing.T) {
	request, rules := &schedule.Request{}, &schedule.Rules{}
	queries := map[string]*schedule.Query{}
	for i := range reflect.TypeFor[schedule.Query]().NumField() {
		name := reflect.TypeFor[schedule.Query]().Field(i).Name
		switch name {
		case "Request", "Rules", "Stop": // the placement; Stop is the caller's
			continue
		}
		q := &schedule.Query{}
		(&filler{t: t}).fill(reflect.ValueOf(q).Elem().Field(i), name)
		queries[name] = q
	}
	for name, known := range onlyField[schedule.GlobalStats](t) {
		queries["Known."+name] = &schedule.Query{Known: known}
	}
	for name, want := range queries {
		want.Request, want.Rules, want.Limit = request, rules, max(want.Limit, 1)
		var r Fields
		got := r.Query(overTheWire(t, EncodeQuery(want, []byte("x")), &cellv1.Query{}), request, rules)
		if err := r.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := equal(got, want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProposal_EveryField_RoundTrips(t *testing.T) {
	proposals := onlyField[schedule.Proposal](t)
	proposals["all"], proposals["none"] = filled[schedule.Proposal](t), &schedule.Proposal{}
	for name, candidate := range onlyField[schedule.Candidate](t) {
		proposals["Candidate."+name] = &schedule.Proposal{Candidates: []schedule.Candidate{{}, *candidate}}
	}
	for name, want := range proposals {
		// A candidate and the bounds have one weight per weigher. A node without a name gets its
		// host's name.
		for i := range want.Candidates {
			c := &want.Candidates[i]
			c.Raw = resized(c.Raw, len(want.Bounds))
			if c.Multipliers != nil {
				c.Multipliers = resized(c.Multipliers, len(want.Bounds))
			}
			if c.NodeName == "" {
				c.NodeName = c.ServiceHost
			}
		}
		if f := want.Forecast; f != nil {
			for i := range f.Steps {
				f.Steps[i].Raw = resized(f.Steps[i].Raw, len(want.Bounds))
			}
			f.Steps = append(f.Steps, schedule.Step{At: 1})
		}
		got, err := DecodeProposal(overTheWire(t, EncodeProposal(want), &cellv1.Proposal{}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.HasSuffix(name, ".Multipliers") {
			continue // without weighers there are none
		}
		if err := equal(got, want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func resized(in []float64, n int) []float64 {
	out := make([]float64, n)
	copy(out, in)
	return out
}
