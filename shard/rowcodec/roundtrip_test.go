package rowcodec

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"cellgate/shard"
)

// Every field of every row, set alone, survives encoding and decoding. A new field that the codec lacks fails here.
func TestRow_EveryField_RoundTrips(t *testing.T) {
	roundTrips(t, Host, func(h *shard.Host) shard.Change { return shard.Change{Host: h} })
	roundTrips(t, Usage, func(u *shard.Usage) shard.Change { return shard.Change{Usage: u} })
	roundTrips(t, Claim, func(c *shard.Claim) shard.Change { return shard.Change{Claim: c} })
	roundTrips(t, Pin, func(p *shard.Pin) shard.Change { return shard.Change{Pin: p} })
	roundTrips(t, Gate, func(g *shard.Gate) shard.Change { return shard.Change{Gate: g} })
	roundTrips(t, Namespace, func(n *shard.Namespace) shard.Change { return shard.Change{Namespace: n} })
	roundTrips(t, AdminState, func(a *shard.AdminState) shard.Change { return shard.Change{AdminState: a} })
	roundTrips(t, Name, func(n *shard.CustomName) shard.Change { return shard.Change{Name: n} })
}

func roundTrips[T any](t *testing.T, decode func([]byte) (*T, error), change func(*T) shard.Change) {
	t.Helper()
	of := reflect.TypeFor[T]()
	for i := range of.NumField() {
		name := of.Name() + "." + of.Field(i).Name
		v, n := new(T), 0
		if c, ok := any(v).(*shard.Claim); ok {
			c.State = shard.Pending // a claim without a state is not decoded
		}
		fill(t, reflect.ValueOf(v).Elem().Field(i), name, &n)
		_, _, row, err := Row(nil, change(v))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := decode(row)
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%s: decoded %+v, %v\nwant %+v", name, got, err, v)
		}
	}
}

// fill sets v to values that differ from each other and from the zero value.
func fill(t *testing.T, v reflect.Value, path string, n *int) {
	t.Helper()
	*n++
	switch v.Type() {
	case reflect.TypeFor[shard.ClaimState]():
		v.Set(reflect.ValueOf(shard.Confirmed))
		return
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(Instant(int64(*n))))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path, n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), fmt.Sprintf("%s[%d]", path, i), n)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, path, n)
		fill(t, value, path, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), path+"."+v.Type().Field(i).Name, n)
		}
	default:
		t.Fatalf("%s: no value for a %s", path, v.Type())
	}
}
