package agent

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// DeltaOf returns the changes between two states of one agent incarnation; nil if a Delta cannot
// express them and the whole state must be sent. Changed instances and namespaces may come in another
// order, which has no meaning. BootId, BaseVersion and Version are set; Epoch and Follow belong to the
// stream.
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
		return nil // parents must come before their children
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

// sameIdentity compares the fields for which a Delta has no field, except fields of the message rather
// than the host.
func sameIdentity(a, b *agentv1.FullState) bool {
	for _, f := range identity {
		if !a.ProtoReflect().Get(f).Equal(b.ProtoReflect().Get(f)) {
			return false
		}
	}
	return true
}

// identity are the fields that sameIdentity compares.
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

// lower makes uuids comparable without case.
func lower(uuid string) string { return strings.ToLower(uuid) }

// difference turns one list into another: gone are removed, and each of put replaces the item with its
// key or is appended. ordered: the result has the order of the other list, too.
type difference[M any] struct {
	put     []M
	gone    []string
	ordered bool
}

// changed returns the difference of two lists; false if a list has a key twice.
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
