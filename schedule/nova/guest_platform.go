package nova

import (
	"strings"

	"cellgate/internal/osnames"
	"cellgate/internal/python"
	"cellgate/schedule/hardware"
)

// addressWidth requires the trait of the mode of guest physical addresses. ComputeCapabilitiesFilter and
// ImagePropertiesFilter compare the width itself.
func (r *resourceRequest) addressWidth(g *guest) {
	const key = "hw:maxphysaddr_mode"
	switch g.oneOf(key, "passthrough", "emulate") {
	case "passthrough":
		r.require(g.at(key, property(key)), "COMPUTE_ADDRESS_SPACE_PASSTHROUGH")
	case "emulate":
		r.require(g.at(key, property(key)), "COMPUTE_ADDRESS_SPACE_EMULATED")
	}
}

// pciAffinity requires support of the policy socket; other policies need none.
func (r *resourceRequest) pciAffinity(g *guest) {
	if g.pciPolicy() == hardware.PCISocket && g.options.has(releaseSocket) {
		r.require(g.at(pciPolicyKey, property(pciPolicyKey)), "COMPUTE_SOCKET_PCI_NUMA_AFFINITY")
	}
}

const pciPolicyKey = "hw:pci_numa_affinity_policy"

// pciPolicy is how near devices must be to the guest's NUMA nodes.
func (g *guest) pciPolicy() string {
	return g.oneOf(pciPolicyKey, hardware.PCIRequired, hardware.PCILegacy, hardware.PCIPreferred, hardware.PCISocket)
}

// persistentMemory asks for one namespace for each label in hw:pmem; each label has its own class.
func (r *resourceRequest) persistentMemory(g *guest) {
	const key = "hw:pmem"
	for label := range strings.SplitSeq(g.spec.Flavor.ExtraSpecs[key], ",") {
		if label = python.Strip(label); label == "" {
			continue
		}
		if class := osnames.Custom("PMEM_NAMESPACE_" + label); r.class(g.at(key, property(key)), class) {
			r.group("").resources[class]++
		}
	}
}
