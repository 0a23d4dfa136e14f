package agents

import (
	"fmt"

	"cellgate/cell/replica"
	"cellgate/internal/wire"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// stateReader reads what agents send.
type stateReader struct{ wire.Fields }

// readHost reads a host's state, whose fields the schema has already checked
// one by one, and checks how they fit together. Every problem is named. Uuids
// become canonical text, and inventories get their defaults.
func readHost(in *agentv1.FullState) (*shard.PutHost, error) {
	put, _, err := ReadHost(in, replica.NewFacts)
	return put, err
}

// ReadHost returns what a state registers, and the facts that read parses from the host. The state's
// facts are validated by that parse.
func ReadHost(in *agentv1.FullState, read func(*shard.Host) *replica.Facts) (*shard.PutHost, *replica.Facts, error) {
	var r stateReader
	h := shard.Host{
		UUID:              r.UUID("host_uuid", in.GetHostUuid()),
		ServiceHost:       in.GetServiceHost(),
		NodeName:          in.GetNodename(),
		Disabled:          in.GetDisabled(),
		DisabledReason:    in.GetDisabledReason(),
		IOWorkload:        in.GetIoWorkload(),
		FailedBuilds:      in.GetFailedBuilds(),
		HypervisorType:    in.GetHypervisorType(),
		HypervisorVersion: in.GetHypervisorVersion(),
		HostIP:            in.GetHostIp(),
		AgentVersion:      in.GetAgentVersion(),
		BootID:            r.UUID("boot_id", in.GetBootId()),
		StateVersion:      in.GetVersion(),
		InstancesUnknown:  in.GetInstancesUnknown(),
	}
	if h.InstancesUnknown && len(in.GetInstances()) > 0 {
		r.Problem("instances", "must be empty with instances_unknown")
	}
	h.Facts = factsOf(in.GetFacts())
	facts := read(&h)
	r.checkFacts(facts.Parsed())
	if text := r.namespaces(in.GetNamespaces()); text != "" {
		if h.Facts == nil {
			h.Facts = &shard.Facts{}
		}
		h.Facts.Namespaces = text
	}
	h.Providers = r.providers(h.UUID, in.GetProviders())
	h.Aggregates = r.aggregates(in.GetAggregates())
	put := &shard.PutHost{Host: h, Instances: r.instances(h.Providers, in.GetInstances())}
	if err := r.Err(); err != nil {
		return nil, nil, err
	}
	return put, facts, nil
}

// once records an item of a list, and a problem if the list has the item already.
func once[K comparable](r *stateReader, seen map[K]struct{}, item K, path, name string) {
	if _, is := seen[item]; is {
		r.Problem(path, "%s stands there already", name)
	}
	seen[item] = struct{}{}
}

// providers reads the provider tree: the root comes first and is the host itself; each child comes
// after its parent, which is in the same tree.
func (r *stateReader) providers(host string, in []*agentv1.Provider) []shard.Provider {
	out := make([]shard.Provider, len(in))
	known := map[string]struct{}{}
	for i, p := range in {
		path := fmt.Sprintf("providers[%d]", i)
		out[i] = shard.Provider{UUID: r.UUID(path+".uuid", p.GetUuid()), Name: p.GetName(), Traits: p.GetTraits()}
		if p.GetParentUuid() != "" {
			out[i].ParentUUID = r.UUID(path+".parent_uuid", p.GetParentUuid())
		}
		switch parent := out[i].ParentUUID; {
		case i == 0 && parent != "":
			r.Problem(path+".parent_uuid", "the first provider is the root and has no parent")
		case i == 0 && out[i].UUID != host:
			r.Problem(path+".uuid", "the root provider is the host: must be host_uuid")
		case i > 0 && parent == "":
			r.Problem(path+".parent_uuid", "only the first provider may be a root: must name its parent")
		case i > 0:
			if _, ok := known[parent]; !ok {
				r.Problem(path+".parent_uuid", "%s is no provider before this one", parent)
			}
		}
		once(r, known, out[i].UUID, path+".uuid", out[i].UUID)
		out[i].Inventories = r.inventories(path, p.GetInventories())
	}
	return out
}

func (r *stateReader) inventories(path string, in []*agentv1.Inventory) []shard.Inventory {
	out := make([]shard.Inventory, len(in))
	seen := map[string]struct{}{}
	for i, v := range in {
		path := fmt.Sprintf("%s.inventories[%d]", path, i)
		once(r, seen, v.GetResourceClass(), path+".resource_class", v.GetResourceClass())
		out[i] = shard.Inventory{
			ResourceClass:   v.GetResourceClass(),
			Total:           int64(v.GetTotal()),
			Reserved:        int64(v.GetReserved()),
			MinUnit:         max(int64(v.GetMinUnit()), 1),
			MaxUnit:         int64(v.GetMaxUnit()),
			StepSize:        max(int64(v.GetStepSize()), 1),
			AllocationRatio: v.GetAllocationRatio(),
			Unaccounted:     int64(v.GetUnaccounted()),
			Filled:          int64(v.GetFilled()),
		}
		if out[i].MaxUnit == 0 {
			out[i].MaxUnit = max(out[i].Total, 1)
		}
		// With a total of 0 every unit is valid.
		if out[i].Total > 0 && out[i].MinUnit > out[i].MaxUnit {
			r.Problem(path+".min_unit", "must not exceed max_unit (%d)", out[i].MaxUnit)
		}
	}
	return out
}

func (r *stateReader) aggregates(in []*agentv1.Aggregate) []shard.Aggregate {
	out := make([]shard.Aggregate, len(in))
	seen := map[string]struct{}{}
	for i, a := range in {
		path := fmt.Sprintf("aggregates[%d].uuid", i)
		out[i] = shard.Aggregate{UUID: r.UUID(path, a.GetUuid()), Name: a.GetName(), Metadata: a.GetMetadata()}
		once(r, seen, out[i].UUID, path, out[i].UUID)
	}
	return out
}

// instances use classes that providers of the host have.
func (r *stateReader) instances(providers []shard.Provider, in []*agentv1.Instance) []shard.Instance {
	type place struct{ provider, class string }
	has := map[place]struct{}{}
	for _, p := range providers {
		for _, i := range p.Inventories {
			has[place{p.UUID, i.ResourceClass}] = struct{}{}
		}
	}
	out := make([]shard.Instance, len(in))
	seen := make(map[string]struct{}, len(in))
	for i, v := range in {
		path := fmt.Sprintf("instances[%d]", i)
		out[i] = shard.Instance{
			UUID:      r.UUID(path+".instance_uuid", v.GetInstanceUuid()),
			ProjectID: v.GetProjectId(),
			UserID:    v.GetUserId(),
		}
		once(r, seen, out[i].UUID, path+".instance_uuid", out[i].UUID)
		used := map[place]struct{}{}
		for n, u := range v.GetUsages() {
			path := fmt.Sprintf("%s.usages[%d]", path, n)
			at := place{r.UUID(path+".provider_uuid", u.GetProviderUuid()), u.GetResourceClass()}
			if _, ok := has[at]; !ok {
				r.Problem(path, "provider %s has no inventory of %s", at.provider, at.class)
			}
			once(r, used, at, path, at.class+" of that provider")
			out[i].Allocations = append(out[i].Allocations, shard.Used{
				ProviderUUID: at.provider, ResourceClass: at.class, Amount: int64(u.GetAmount()),
			})
		}
	}
	return out
}
