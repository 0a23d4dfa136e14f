package agent

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// DeltaOf gives what changed between two states of one agent incarnation; nil when a Delta
// cannot say it and the whole state must be sent. Instances and namespaces come out
// in another order where theirs changed: it means nothing. BootId, BaseVersion and
// Version are set; epoch and follow are the stream's.
func DeltaOf(from, to *agentv1.FullState) *agentv1.Delta {
	if from.GetBootId() != to.GetBootId() || from.GetVersion() >= to.GetVersion() || !sameIdentity(from, to) {
		return nil
	}
	d := &agentv1.Delta{BootId: to.GetBootId(), BaseVersion: from.GetVersion(), Version: to.GetVersion()}
	if from.GetDisabled() != to.GetDisabled() {
		d.Disabled = proto.Bool(to.GetDisabled())
	}
	if from.GetDisabledReason() != to.GetDisabledReason() {
		d.DisabledReason = proto.String(to.GetDisabledReason())
	}
	if from.GetIoWorkload() != to.GetIoWorkload() {
		d.IoWorkload = proto.Int32(to.GetIoWorkload())
	}
	if from.GetFailedBuilds() != to.GetFailedBuilds() {
		d.FailedBuilds = proto.Int32(to.GetFailedBuilds())
	}
	if !proto.Equal(from.GetFacts(), to.GetFacts()) {
		if to.GetFacts() == nil {
			return nil
		}
		d.Facts = to.GetFacts()
	}
	if !slices.EqualFunc(from.GetAggregates(), to.GetAggregates(), equal) {
		d.Aggregates = &agentv1.Aggregates{Aggregates: to.GetAggregates()}
	}
	providers, ok := changed(from.GetProviders(), to.GetProviders(), func(p *agentv1.Provider) string { return lower(p.GetUuid()) })
	if !ok || !providers.ordered {
		return nil // a parent stands before its children
	}
	d.Providers, d.RemovedProviders = providers.put, providers.gone
	instances, ok := changed(from.GetInstances(), to.GetInstances(), func(i *agentv1.Instance) string { return lower(i.GetInstanceUuid()) })
	if !ok {
		return nil
	}
	d.Instances, d.RemovedInstances = instances.put, instances.gone
	namespaces, ok := changed(from.GetNamespaces(), to.GetNamespaces(), (*agentv1.Namespace).GetName)
	if !ok {
		return nil
	}
	d.Namespaces, d.RemovedNamespaces = namespaces.put, namespaces.gone
	return d
}

// sameIdentity compares what a Delta has no field for, but what is of a message and not of
// the host.
func sameIdentity(a, b *agentv1.FullState) bool {
	for _, f := range identity {
		if !a.ProtoReflect().Get(f).Equal(b.ProtoReflect().Get(f)) {
			return false
		}
	}
	return true
}

// identity are those fields.
var identity = func() (out []protoreflect.FieldDescriptor) {
	changes := new(agentv1.Delta).ProtoReflect().Descriptor().Fields()
	all := new(agentv1.FullState).ProtoReflect().Descriptor().Fields()
	for i := range all.Len() {
		if f := all.Get(i); changes.ByName(f.Name()) == nil {
			out = append(out, f)
		}
	}
	return out
}()

func equal[M proto.Message](a, b M) bool { return proto.Equal(a, b) }

// lower makes uuids comparable, whatever their letters' case.
func lower(uuid string) string { return strings.ToLower(uuid) }

// difference is how one list becomes another: gone are taken out, each of put takes
// the place of the one with its key or is added at the end. ordered: that gives the
// other list's order too.
type difference[M any] struct {
	put     []M
	gone    []string
	ordered bool
}

// changed gives the difference of two lists; false when a key is in one of them twice.
func changed[M proto.Message](from, to []M, key func(M) string) (d difference[M], ok bool) {
	old := make(map[string]M, len(from))
	for _, m := range from {
		old[key(m)] = m
	}
	keys := make(map[string]struct{}, len(to))
	for _, m := range to {
		k := key(m)
		keys[k] = struct{}{}
		if was, there := old[k]; !there || !proto.Equal(was, m) {
			d.put = append(d.put, m)
		}
	}
	if len(old) != len(from) || len(keys) != len(to) {
		return d, false
	}
	order := make([]string, 0, len(to))
	for _, m := range from {
		if _, stays := keys[key(m)]; stays {
			order = append(order, key(m))
		} else {
			d.gone = append(d.gone, key(m))
		}
	}
	for _, m := range to {
		if _, there := old[key(m)]; !there {
			order = append(order, key(m))
		}
	}
	d.ordered = slices.EqualFunc(order, to, func(k string, m M) bool { return k == key(m) })
	return d, true
}
