package selection

import (
	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/schedule"
)

// limitsOf gives the limits that filters set for a host, in the form of Nova's
// SchedulerLimits.to_dict(); empty for none. Its NUMATopologyLimits is a primitive, which
// includes the request's networks.
func limitsOf(l *schedule.Limits, n *schedule.NovaRequest) *structpb.Struct {
	out := &structpb.Struct{}
	if l == nil {
		return out
	}
	out.Fields = map[string]*structpb.Value{}
	for name, x := range map[string]*int64{"vcpu": l.VCPUs, "memory_mb": l.MemoryMB, "disk_gb": l.DiskGB} {
		if x != nil {
			out.Fields[name] = structpb.NewNumberValue(float64(*x))
		}
	}
	if l.NUMA == nil {
		return out
	}
	data := map[string]*structpb.Value{
		"cpu_allocation_ratio": structpb.NewNumberValue(l.NUMA.CPURatio),
		"ram_allocation_ratio": structpb.NewNumberValue(l.NUMA.RAMRatio),
	}
	if n != nil && n.Networks != nil {
		physnets := &structpb.ListValue{}
		for _, p := range n.Networks.Physnets {
			physnets.Values = append(physnets.Values, structpb.NewStringValue(p))
		}
		data["network_metadata"] = primitiveOf("NetworkMetadata", "1.0", map[string]*structpb.Value{
			"physnets": structpb.NewListValue(physnets), "tunneled": structpb.NewBoolValue(n.Networks.Tunneled),
		})
	}
	out.Fields["numa_topology"] = primitiveOf("NUMATopologyLimits", "1.1", data)
	return out
}

// primitiveOf gives a versioned object in the form of its obj_to_primitive().
func primitiveOf(name, version string, data map[string]*structpb.Value) *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"nova_object.name": structpb.NewStringValue(name), "nova_object.namespace": structpb.NewStringValue("nova"),
		"nova_object.version": structpb.NewStringValue(version),
		"nova_object.data":    structpb.NewStructValue(&structpb.Struct{Fields: data}),
	}})
}
