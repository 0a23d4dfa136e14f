package bus

import (
	"encoding/json"
	"errors"
	"fmt"

	"cellgate/internal/limits"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// object is an object of Nova in its serialized form.
type object struct {
	Name      string   `json:"nova_object.name"`
	Namespace string   `json:"nova_object.namespace"`
	Version   string   `json:"nova_object.version"`
	Data      any      `json:"nova_object.data"`
	Changes   []string `json:"nova_object.changes"`
}

// selectionData is the data of a Selection 1.1.
type selectionData struct {
	ComputeNodeUUID          string  `json:"compute_node_uuid"`
	ServiceHost              string  `json:"service_host"`
	Nodename                 string  `json:"nodename"`
	CellUUID                 string  `json:"cell_uuid"`
	Limits                   object  `json:"limits"`
	AllocationRequest        *string `json:"allocation_request"`
	AllocationRequestVersion *string `json:"allocation_request_version"`
	AvailabilityZone         *string `json:"availability_zone"`
}

// limitsData is the data of a SchedulerLimits 1.0.
type limitsData struct {
	NUMATopology any `json:"numa_topology"`
	VCPU         any `json:"vcpu"`
	DiskGB       any `json:"disk_gb"`
	MemoryMB     any `json:"memory_mb"`
}

// selections gives a list for each instance: the selected host, then the alternates.
func selections(all []*cellgatev1.Destinations) [][]object {
	out := make([][]object, len(all))
	for i, d := range all {
		out[i] = append(out[i], selectionOf(d.GetSelected()))
		for _, s := range d.GetAlternates() {
			out[i] = append(out[i], selectionOf(s))
		}
	}
	return out
}

func selectionOf(s *cellgatev1.Selection) object {
	limits := s.GetLimits().AsMap()
	return object{
		Name: "Selection", Namespace: "nova", Version: "1.1",
		Data: selectionData{
			ComputeNodeUUID: s.GetComputeNodeUuid(), ServiceHost: s.GetServiceHost(), Nodename: s.GetNodename(), CellUUID: s.GetCellUuid(),
			Limits: object{
				Name: "SchedulerLimits", Namespace: "nova", Version: "1.0",
				Data:    limitsData{NUMATopology: limits["numa_topology"], VCPU: limits["vcpu"], DiskGB: limits["disk_gb"], MemoryMB: limits["memory_mb"]},
				Changes: []string{"numa_topology", "vcpu", "disk_gb", "memory_mb"},
			},
			AllocationRequest: orNull(s.GetAllocationRequest()), AllocationRequestVersion: orNull(s.GetAllocationRequestVersion()),
			AvailabilityZone: orNull(s.GetAvailabilityZone()),
		},
		Changes: []string{
			"compute_node_uuid", "service_host", "nodename", "cell_uuid", "limits", "allocation_request", "allocation_request_version", "availability_zone",
		},
	}
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// hostState is the answer for callers that do not know Selection objects.
type hostState struct {
	Host     string         `json:"host"`
	Nodename string         `json:"nodename"`
	Limits   map[string]any `json:"limits"`
}

// hostStates gives the host of each instance.
func hostStates(all []*cellgatev1.Destinations) []hostState {
	out := make([]hostState, len(all))
	for i, d := range all {
		s := d.GetSelected()
		out[i] = hostState{Host: s.GetServiceHost(), Nodename: s.GetNodename(), Limits: s.GetLimits().AsMap()}
	}
	return out
}

// structOf decodes a JSON object with at most limits.NovaDepth levels.
func structOf(raw json.RawMessage) (map[string]any, error) {
	if depthOf(raw) > limits.NovaDepth {
		return nil, fmt.Errorf("nests more than %d lists and objects", limits.NovaDepth)
	}
	var all map[string]any
	if err := json.Unmarshal(raw, &all); err != nil || all == nil {
		return nil, errors.New("is not an object")
	}
	return all, nil
}

// depthOf gives how deep valid JSON nests lists and objects.
func depthOf(raw []byte) int {
	depth, most, text := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			depth++
			most = max(most, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return most
}
