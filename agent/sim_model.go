package agent

import "math/rand/v2"

// model is a kind of machine. Sizes are those that the operating system sees: threads, MiB, GiB.
type model struct {
	name      string
	threads   int32
	memoryMB  int32
	diskGB    int32
	cpuRatio  float64
	traits    []string
	extra     string // a custom resource class, "" for none
	extraHas  int32
	extraMost int32 // the most of extra that one instance may have
	// nodes is the number of NUMA nodes, 0 for none; devices the number of PCI devices for guests.
	nodes, devices  int
	vendor, product string // of the devices, in hexadecimal digits
}

// Traits by CPU vendor and generation.
var (
	intelTraits = []string{
		"HW_CPU_X86_AESNI", "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_BMI", "HW_CPU_X86_BMI2",
		"HW_CPU_X86_FMA3", "HW_CPU_X86_SSE41", "HW_CPU_X86_SSE42", "HW_CPU_X86_VMX",
	}
	amdTraits = []string{
		"HW_CPU_X86_AESNI", "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_AMD_SVM", "HW_CPU_X86_BMI",
		"HW_CPU_X86_BMI2", "HW_CPU_X86_FMA3", "HW_CPU_X86_SSE41", "HW_CPU_X86_SSE42",
	}
)

// The profiles of samples/README.md, each with the models its hosts are drawn
// from.
var (
	generalModels = []model{
		{name: "dual-8c", threads: 32, memoryMB: 131072, diskGB: 2000, cpuRatio: 4, traits: intelTraits},
		{name: "dual-12c", threads: 48, memoryMB: 262144, diskGB: 3000, cpuRatio: 4, traits: intelTraits},
		{name: "dual-16c", threads: 64, memoryMB: 262144, diskGB: 2000, cpuRatio: 4, traits: intelTraits},
		{name: "dual-16c-storage", threads: 64, memoryMB: 393216, diskGB: 4000, cpuRatio: 4, traits: intelTraits},
		{name: "single-32c", threads: 64, memoryMB: 524288, diskGB: 4000, cpuRatio: 4, traits: amdTraits},
	}
	fastModels = []model{
		{name: "dual-16c-nvme", threads: 64, memoryMB: 524288, diskGB: 4000, cpuRatio: 4, traits: intelTraits},
		{name: "dual-24c-nvme", threads: 96, memoryMB: 786432, diskGB: 6000, cpuRatio: 4, traits: intelTraits},
		{name: "dual-32c-nvme", threads: 128, memoryMB: 1048576, diskGB: 8000, cpuRatio: 4, traits: intelTraits},
		{name: "single-64c-nvme", threads: 128, memoryMB: 1048576, diskGB: 4000, cpuRatio: 4, traits: amdTraits},
	}
	hugeModels = []model{
		{name: "dual-96c-4t", threads: 192, memoryMB: 4194304, diskGB: 30000, cpuRatio: 1, traits: amdTraits, nodes: 2},
		{name: "quad-56c-4t", threads: 224, memoryMB: 4194304, diskGB: 30000, cpuRatio: 1, traits: intelTraits, nodes: 4},
		{name: "dual-128c-4t", threads: 256, memoryMB: 4194304, diskGB: 30000, cpuRatio: 1, traits: amdTraits, nodes: 2},
	}
	gpuModels = []model{{
		name: "gpu-4xa40", threads: 64, memoryMB: 524288, diskGB: 4000, cpuRatio: 2, traits: amdTraits,
		extra: "VGPU", extraHas: 16, extraMost: 4,
		nodes: 2, devices: 4, vendor: "10de", product: "2235",
	}}
	fpgaModels = []model{{
		name: "fpga-4", threads: 64, memoryMB: 524288, diskGB: 4000, cpuRatio: 2, traits: intelTraits,
		extra: "CUSTOM_FPGA_CARD", extraHas: 4, extraMost: 4,
		nodes: 2, devices: 4, vendor: "10ee", product: "5004",
	}}
)

// draw chooses the model of the host at p.
func (p place) draw(dice *rand.Rand) model {
	models := generalModels
	switch {
	case p.fpga():
		models = fpgaModels
	case p.gpu():
		models = gpuModels
	case p.slot >= 21:
		models = hugeModels
	case p.slot >= 13:
		models = fastModels
	}
	return models[dice.IntN(len(models))]
}

// computeTraits are the traits that Nova's libvirt driver reports for every host.
var computeTraits = []string{
	"COMPUTE_DEVICE_TAGGING", "COMPUTE_GRAPHICS_MODEL_VIRTIO", "COMPUTE_IMAGE_TYPE_QCOW2",
	"COMPUTE_IMAGE_TYPE_RAW", "COMPUTE_NET_ATTACH_INTERFACE", "COMPUTE_NET_VIF_MODEL_VIRTIO",
	"COMPUTE_NODE", "COMPUTE_RESCUE_BFV", "COMPUTE_STORAGE_BUS_SCSI", "COMPUTE_STORAGE_BUS_VIRTIO",
	"COMPUTE_TRUSTED_CERTS", "COMPUTE_VOLUME_EXTEND",
}

// traits of a host of model m at p. Nova sets COMPUTE_STATUS_DISABLED on the provider of a disabled
// compute service.
func (p place) traits(m model) []string {
	t := append(append([]string{}, computeTraits...), m.traits...)
	for _, x := range []struct {
		trait string
		has   bool
	}{
		{"HW_CPU_X86_AVX512F", p.slot >= 7},
		{"COMPUTE_VOLUME_MULTI_ATTACH", p.slot >= 4},
		{"STORAGE_DISK_HDD", !p.ssd()},
		{"STORAGE_DISK_SSD", p.ssd()},
		{"CUSTOM_GOLD", p.gold()},
		{"CUSTOM_GPU_A40", p.gpu()},
		{"CUSTOM_FPGA", p.fpga()},
		{"HW_CPU_X86_SGX", p.sgx()},
		{"COMPUTE_STATUS_DISABLED", p.disabled()},
	} {
		if x.has {
			t = append(t, x.trait)
		}
	}
	return t
}
