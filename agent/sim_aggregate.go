package agent

import (
	"fmt"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// aggregate makes aggregate number n of samples/README.md. The uuids are the
// same in every cell and under every seed.
func aggregate(n int, name, key, value string) *agentv1.Aggregate {
	return &agentv1.Aggregate{
		Uuid:     fmt.Sprintf("a0000000-0000-4000-8000-%012d", n),
		Name:     name,
		Metadata: map[string]string{key: value},
	}
}

// aggregates are those of the host at p, its zone first.
func (p place) aggregates() []*agentv1.Aggregate {
	var all []*agentv1.Aggregate
	if !p.unzoned() {
		n := (p.rack-1)%3 + 1
		zone := fmt.Sprintf("az%d", n)
		all = append(all, aggregate(n, zone, "availability_zone", zone))
	}
	if p.ssd() {
		all = append(all, aggregate(11, "ssd", "ssd", "true"))
	}
	if p.gold() {
		all = append(all, aggregate(12, "gold", "tier", "gold"))
	}
	if p.gpu() {
		all = append(all, aggregate(13, "gpu", "gpu", "a40"))
	}
	if p.fpga() {
		all = append(all, aggregate(14, "fpga", "fpga", "true"))
	}
	return all
}
