package agents

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	hostagent "cellgate/agent"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// drawState returns a state of a few providers, instances and namespaces from small sets, so that
// two states can differ in everything that a delta can change.
func drawState(t *rapid.T, version uint64) *agentv1.FullState {
	s := plainState(1, rapid.Int32Range(1, 3).Draw(t, "vcpus"))
	s.Version = version
	s.Disabled = rapid.Bool().Draw(t, "disabled")
	s.DisabledReason = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "reason")
	s.IoWorkload = rapid.Int32Range(0, 2).Draw(t, "io")
	s.FailedBuilds = rapid.Int32Range(0, 2).Draw(t, "failed")
	if rapid.Bool().Draw(t, "facts") {
		s.Facts = &agentv1.Facts{CpuInfo: rapid.SampledFrom([]string{"", `{"arch":"x"}`}).Draw(t, "cpu")}
	}
	few := rapid.SliceOfNDistinct(rapid.IntRange(2, 6), 0, 4, rapid.ID[int])
	for _, n := range few.Draw(t, "children") {
		s.Providers = append(s.Providers, &agentv1.Provider{
			Uuid: hostUUID(n), ParentUuid: hostUUID(1), Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"),
		})
	}
	for _, n := range few.Draw(t, "instances") {
		s.Instances = append(s.Instances, &agentv1.Instance{
			InstanceUuid: consumerUUID(n), Usages: []*agentv1.Usage{usage(hostUUID(1), "VCPU", rapid.Int32Range(1, 2).Draw(t, "amount"))},
		})
	}
	for _, n := range few.Draw(t, "aggregates") {
		s.Aggregates = append(s.Aggregates, &agentv1.Aggregate{Uuid: consumerUUID(n), Metadata: map[string]string{"k": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "value")}})
	}
	for _, n := range few.Draw(t, "namespaces") {
		s.Namespaces = append(s.Namespaces, &agentv1.Namespace{Name: fmt.Sprintf("n%d", n), Facts: rapid.SampledFrom([]string{"{}", `{"a":1}`}).Draw(t, "said")})
	}
	return s
}

// ordered returns a copy of a state in which unordered lists are sorted.
func ordered(s *agentv1.FullState) *agentv1.FullState {
	s = proto.CloneOf(s)
	slices.SortFunc(s.GetInstances(), func(a, b *agentv1.Instance) int { return strings.Compare(a.GetInstanceUuid(), b.GetInstanceUuid()) })
	slices.SortFunc(s.GetNamespaces(), func(a, b *agentv1.Namespace) int { return strings.Compare(a.GetName(), b.GetName()) })
	return s
}

// An agent's delta, applied to the cell's state, gives the host's new state. The cell's state is
// not modified.
func TestADeltaAppliedIsTheNewState(t *testing.T) {
	deltas := 0
	rapid.Check(t, func(t *rapid.T) {
		held, next := drawState(t, 1), drawState(t, 2)
		before := proto.CloneOf(held)
		d := hostagent.DeltaOf(held, next)
		if d == nil {
			return
		}
		deltas++
		got, err := applyDelta(held, d)
		if err != nil {
			t.Fatalf("%v\nof %v", err, d)
		}
		if !proto.Equal(ordered(got), ordered(next)) {
			t.Fatalf("%v\nmade\n%v\nnot\n%v\nof\n%v", d, got, next, before)
		}
		if !proto.Equal(held, before) {
			t.Fatalf("what was held is changed: %v", held)
		}
	})
	if deltas < 10 {
		t.Errorf("only %d deltas were tried", deltas)
	}
}

// Every field of a state is either in a delta, or its change makes the agent send the whole state.
func TestNoFieldOfAStateIsLostInADelta(t *testing.T) {
	full := plainState(1, 8)
	full.Version = 2
	fields := full.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch f.Name() {
		case "version", "epoch", "follow": // every delta has them
			continue
		}
		next := proto.CloneOf(full)
		m := next.ProtoReflect()
		switch {
		case f.IsList():
			list := m.Mutable(f).List()
			list.Append(list.NewElement())
		case f.Kind() == protoreflect.MessageKind:
			facts := m.Mutable(f).Message()
			facts.Set(facts.Descriptor().Fields().Get(0), protoreflect.ValueOfString("x"))
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(m.Get(f).String()+"x"))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(!m.Get(f).Bool()))
		case f.Kind() == protoreflect.Int32Kind:
			m.Set(f, protoreflect.ValueOfInt32(int32(m.Get(f).Int())+1))
		default:
			t.Fatalf("%s: this test does not know how to change it", f.Name())
		}
		next.Version = 3
		d := hostagent.DeltaOf(full, next)
		if d == nil {
			continue
		}
		if got, err := applyDelta(full, d); err != nil || !proto.Equal(got, next) {
			t.Errorf("%s: %v, %v", f.Name(), got, err)
		}
	}
}

func TestWhatIsWrongInADeltaIsNamed(t *testing.T) {
	held := plainState(1, 8)
	held.Instances = []*agentv1.Instance{{InstanceUuid: consumerUUID(1)}, {InstanceUuid: consumerUUID(2)}}
	_, err := applyDelta(held, &agentv1.Delta{
		BootId: bootA, BaseVersion: 2, Version: 2,
		Instances:         []*agentv1.Instance{{InstanceUuid: consumerUUID(3)}, {InstanceUuid: consumerUUID(3)}, {InstanceUuid: consumerUUID(2)}},
		RemovedInstances:  []string{consumerUUID(4), consumerUUID(2), consumerUUID(1), strings.ToUpper(consumerUUID(1))},
		RemovedNamespaces: []string{"nova"},
	})
	var got []string
	if f := new(fault.Error); asFault(err, &f) {
		for _, p := range f.Fields {
			got = append(got, p.Path+": "+p.Problem)
		}
	}
	want := []string{
		"version: must be above base_version (2)",
		"instances[1].instance_uuid: " + consumerUUID(3) + " stands there already",
		"removed_instances[1]: " + consumerUUID(2) + " stands in instances too",
		"removed_instances[3]: " + strings.ToUpper(consumerUUID(1)) + " stands there already",
		"removed_instances[0]: " + consumerUUID(4) + " is not held",
		"removed_namespaces[0]: nova is not held",
	}
	if !slices.Equal(got, want) {
		t.Errorf("named:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A delta can make a list as long as the schema allows in a state, but not longer.
func TestADeltaKeepsTheBoundsOfAState(t *testing.T) {
	for list, c := range map[string]struct {
		most int
		of   func(held *agentv1.FullState, d *agentv1.Delta, most int)
	}{
		"providers": {maxProviders, func(held *agentv1.FullState, d *agentv1.Delta, most int) {
			for n := range most - 1 {
				held.Providers = append(held.Providers, &agentv1.Provider{Uuid: hostUUID(n + 2), ParentUuid: hostUUID(1)})
			}
			d.Providers = []*agentv1.Provider{{Uuid: consumerUUID(1), ParentUuid: hostUUID(1)}}
		}},
		"instances": {maxInstances, func(held *agentv1.FullState, d *agentv1.Delta, most int) {
			for n := range most {
				held.Instances = append(held.Instances, &agentv1.Instance{InstanceUuid: consumerUUID(n)})
			}
			d.Instances = []*agentv1.Instance{{InstanceUuid: consumerUUID(most)}}
		}},
		"namespaces": {maxNamespaces, func(held *agentv1.FullState, d *agentv1.Delta, most int) {
			for n := range most {
				held.Namespaces = append(held.Namespaces, &agentv1.Namespace{Name: fmt.Sprintf("n%d", n), Facts: "{}"})
			}
			d.Namespaces = []*agentv1.Namespace{{Name: "x", Facts: "{}"}}
		}},
	} {
		held, d := plainState(1, 8), &agentv1.Delta{BaseVersion: 1, Version: 2}
		c.of(held, d, c.most)
		if err := rpc.Validate(held); err != nil {
			t.Fatalf("%s: %d are too many for the schema: %v", list, c.most, err)
		}
		_, err := applyDelta(held, d)
		if f := new(fault.Error); !asFault(err, &f) || len(f.Fields) != 1 || f.Fields[0].Path != list {
			t.Errorf("%s: one more than %d: %v", list, c.most, err)
		}
		c.of(held, d, 2)
		if rpc.Validate(held) == nil {
			t.Errorf("%s: the schema takes more than %d", list, c.most)
		}
	}
}
