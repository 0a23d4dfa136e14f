package nova

import (
	"slices"
	"strings"
	"testing"

	"cellgate/schedule"
)

// TestPrefilters checks what each request filter and translation adds. TestResourceRequestIsNovas
// also compares those of Nova 26.2.2 with Nova.
func TestPrefilters(t *testing.T) {
	always := []string{"!COMPUTE_STATUS_DISABLED"}
	cases := map[string]struct {
		specs, image map[string]string
		options      Options
		format       string
		bfv          bool
		traits       []string // besides always
		wrong        string
	}{
		"nothing": {},
		"packed":  {specs: map[string]string{"hw:virtio_packed_ring": "yes"}, traits: []string{"COMPUTE_NET_VIRTIO_PACKED"}},
		"packed by image, refused by flavor": {
			specs: map[string]string{"hw:virtio_packed_ring": "no"}, image: map[string]string{"hw_virtio_packed_ring": "true"},
			wrong: `flavor.extra_specs["hw:virtio_packed_ring"]`,
		},
		"virtio sound":          {image: map[string]string{"hw_sound_model": "virtio"}, traits: []string{"COMPUTE_SOUND_MODEL_VIRTIO"}},
		"other sound":           {image: map[string]string{"hw_sound_model": "ac97"}},
		"unknown sound":         {specs: map[string]string{"hw:sound_model": "loud"}, wrong: `flavor.extra_specs["hw:sound_model"]`},
		"vTPM":                  {specs: map[string]string{"hw:tpm_version": "2.0"}, traits: []string{"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER", "COMPUTE_SECURITY_TPM_TIS"}},
		"vTPM, ussuri":          {specs: map[string]string{"hw:tpm_version": "9"}, options: Options{Release: 21}},
		"vTPM, victoria":        {specs: map[string]string{"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}, options: Options{Release: 22}, traits: []string{"COMPUTE_SECURITY_TPM_2_0"}},
		"vTPM, 2024.1":          {specs: map[string]string{"hw:tpm_version": "2.0"}, options: Options{Release: 29}, traits: []string{"COMPUTE_SECURITY_TPM_2_0"}},
		"vTPM, 2024.2":          {specs: map[string]string{"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}, options: Options{Release: 30}, traits: []string{"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_CRB"}},
		"vTPM, 2025.2":          {specs: map[string]string{"hw:tpm_version": "2.0"}, options: Options{Release: 32}, traits: []string{"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"}},
		"vTPM, 2026.1":          {specs: map[string]string{"hw:tpm_version": "2.0"}, options: Options{Release: 33}, traits: []string{"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER", "COMPUTE_SECURITY_TPM_TIS"}},
		"SEV":                   {specs: map[string]string{"hw:mem_encryption": "yes"}, image: map[string]string{"hw_firmware_type": "uefi"}, traits: []string{"HW_CPU_X86_AMD_SEV"}},
		"SEV, 2025.1":           {specs: map[string]string{"hw:mem_encryption": "yes"}, image: map[string]string{"hw_firmware_type": "uefi"}, options: Options{Release: 31}},
		"SEV, 2025.2":           {specs: map[string]string{"hw:mem_encryption": "yes"}, image: map[string]string{"hw_firmware_type": "uefi"}, options: Options{Release: 32}, traits: []string{"HW_CPU_X86_AMD_SEV"}},
		"SEV, stein":            {specs: map[string]string{"hw:mem_encryption": "yes"}, options: Options{Release: 19}},
		"SEV model, 2025.1":     {specs: map[string]string{"hw:mem_encryption_model": "amd-sev-es"}, options: Options{Release: 31}},
		"SEV model, 2025.2":     {specs: map[string]string{"hw:mem_encryption_model": "amd-sev-es"}, options: Options{Release: 32}, wrong: `flavor.extra_specs["hw:mem_encryption_model"]`},
		"secure boot, victoria": {specs: map[string]string{"os:secure_boot": "required"}, image: map[string]string{"os_secure_boot": "required"}, options: Options{Release: 22}},
		"secure boot, wallaby":  {image: map[string]string{"os_secure_boot": "required"}, options: Options{Release: 23}, traits: []string{"COMPUTE_SECURITY_UEFI_SECURE_BOOT"}},
		"socket, victoria":      {specs: map[string]string{"hw:pci_numa_affinity_policy": "socket"}, options: Options{Release: 22}},
		"socket, wallaby":       {specs: map[string]string{"hw:pci_numa_affinity_policy": "socket"}, options: Options{Release: 23}, traits: []string{"COMPUTE_SOCKET_PCI_NUMA_AFFINITY"}},
		"address width, zed":    {specs: map[string]string{"hw:maxphysaddr_mode": "emulate"}, image: map[string]string{"hw_maxphysaddr_mode": "passthrough"}, options: Options{Release: 26}},
		"address width, 2024.1": {specs: map[string]string{"hw:maxphysaddr_mode": "emulate"}, options: Options{Release: 29}, traits: []string{"COMPUTE_ADDRESS_SPACE_EMULATED"}},
		"stateless, 2024.1":     {image: map[string]string{"hw_firmware_stateless": "true"}, options: Options{Release: 29}},
		"stateless, 2024.2":     {image: map[string]string{"hw_firmware_stateless": "true", "hw_firmware_type": "uefi"}, options: Options{Release: 30}, traits: []string{"COMPUTE_SECURITY_STATELESS_FIRMWARE"}},
		"threads, stein":        {specs: map[string]string{"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}, options: Options{Release: 19}},
		"sound, 2025.1":         {image: map[string]string{"hw_sound_model": "virtio"}, options: Options{Release: 31}},
		"packed, 2023.2":        {specs: map[string]string{"hw:virtio_packed_ring": "yes"}, options: Options{Release: 28}},
		"packed, 2024.1":        {specs: map[string]string{"hw:virtio_packed_ring": "yes"}, options: Options{Release: 29}, traits: []string{"COMPUTE_NET_VIRTIO_PACKED"}},
		"encryption, yoga":      {specs: map[string]string{"hw:ephemeral_encryption": "true"}, options: Options{Release: 25}},
		"encryption, zed":       {specs: map[string]string{"hw:ephemeral_encryption": "true"}, options: Options{Release: 26}, traits: []string{"COMPUTE_EPHEMERAL_ENCRYPTION"}},
		"vTPM of a host":        {specs: map[string]string{"hw:tpm_version": "1.2", "hw:tpm_secret_security": "host"}, traits: []string{"COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST", "COMPUTE_SECURITY_TPM_TIS"}},
		"vTPM secret of no kind": {
			specs: map[string]string{"hw:tpm_version": "1.2", "hw:tpm_secret_security": "none"}, wrong: `flavor.extra_specs["hw:tpm_secret_security"]`,
		},
		"vTPM secret without a TPM": {specs: map[string]string{"hw:tpm_secret_security": "none"}},
		"address width":             {specs: map[string]string{"hw:maxphysaddr_mode": "emulate", "hw:maxphysaddr_bits": "42"}, traits: []string{"COMPUTE_ADDRESS_SPACE_EMULATED"}},
		"address width of images":   {image: map[string]string{"hw_maxphysaddr_mode": "passthrough"}, traits: []string{"COMPUTE_ADDRESS_SPACE_PASSTHROUGH"}},
		"stateless firmware":        {image: map[string]string{"hw_firmware_stateless": "true", "hw_firmware_type": "uefi"}, traits: []string{"COMPUTE_SECURITY_STATELESS_FIRMWARE"}},
		"stateless BIOS":            {image: map[string]string{"hw_firmware_stateless": "true"}, wrong: `image.properties["hw_firmware_stateless"]`},
		"image type":                {options: Options{ImageTypeSupport: true}, format: "qcow2", traits: []string{"COMPUTE_IMAGE_TYPE_QCOW2"}},
		"image type without option": {format: "qcow2"},
		"image type from a volume":  {options: Options{ImageTypeSupport: true}, bfv: true},
		"image type not known":      {options: Options{ImageTypeSupport: true}, wrong: "image.disk_format"},
		"image metadata":            {options: Options{ImageMetadata: true}, image: map[string]string{"hw_disk_bus": "virtio", "hw_vif_model": "igb"}, traits: []string{"COMPUTE_NET_VIF_MODEL_IGB", "COMPUTE_STORAGE_BUS_VIRTIO"}},
		"image metadata and vIOMMU": {options: Options{ImageMetadata: true}, image: map[string]string{"hw_disk_bus": "virtio", "hw_viommu_model": "intel"}},
		"accelerators are refused":  {specs: map[string]string{"accel:device_profile": "p"}, wrong: `flavor.extra_specs["accel:device_profile"]`},
		"no suffix is refused":      {specs: map[string]string{"resources!:VGPU": "1"}, wrong: `flavor.extra_specs["resources!:VGPU"]`},
		"no such policy":            {specs: map[string]string{"hw:cpu_policy": "always"}, wrong: `flavor.extra_specs["hw:cpu_policy"]`},
		"disabled hosts are wanted": {specs: map[string]string{"trait:COMPUTE_STATUS_DISABLED": "required"}, wrong: "request_level_params.root_forbidden"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, _, err := c.options.Compile(Spec{
				Path: "r", Flavor: Flavor{VCPUs: 1, ExtraSpecs: c.specs}, ImageProperties: c.image, DiskFormat: c.format, BootFromVolume: c.bfv,
			})
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), "r."+c.wrong) {
					t.Fatalf("%v, want r.%s", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := slices.Clone(r.Required)
			for _, f := range r.Forbidden {
				got = append(got, "!"+f)
			}
			if want := append(c.traits, always...); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// TestPrefiltersOfAggregates checks the conditions that cells evaluate.
func TestPrefiltersOfAggregates(t *testing.T) {
	s := Spec{
		Path: "r", ProjectID: "p", RequiredTraits: []string{"CUSTOM_ROOT"},
		Flavor:          Flavor{VCPUs: 1, ExtraSpecs: map[string]string{"trait:CUSTOM_F": "required", "os:secure_boot": "required"}},
		ImageProperties: map[string]string{"trait:CUSTOM_I": "required"}, Resolved: true,
	}
	on := Options{LimitTenants: true, IsolateAggregates: true}
	r, _, err := on.Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	// Traits from request_level_params.root_required open no isolated aggregate.
	want := []string{"COMPUTE_SECURITY_UEFI_SECURE_BOOT", "CUSTOM_F", "CUSTOM_I"}
	if r.Tenant != "p" || r.Isolated == nil || !slices.Equal(r.Isolated.Traits, want) {
		t.Errorf("tenant %q, isolation %+v, want p and %v", r.Tenant, r.Isolated, want)
	}
	s.Resolved = false
	r, _, err = on.Compile(s)
	if want = append(want, "CUSTOM_ROOT"); err != nil || !slices.Equal(r.Isolated.Traits, want) {
		t.Errorf("the typed form: isolation %+v, %v, want %v", r.Isolated, err, want)
	}
	s.Hints = map[string][]string{"_nova_check_type": {"rebuild"}}
	if r, _, err = on.Compile(s); err != nil || r.Tenant != "" || r.Isolated != nil || r.Forbidden != nil {
		t.Errorf("a rebuild is restricted: %+v, %v", r, err)
	}
	if r, _, err = new(Options).Compile(s); err != nil || r.Tenant != "" || r.Isolated != nil {
		t.Errorf("restricted by default: %+v, %v", r, err)
	}
}

// TestImageMetadataIsReported: properties that the option ImageMetadata reads are not reported as
// ignored.
func TestImageMetadataIsReported(t *testing.T) {
	s := Spec{Path: "r", Flavor: Flavor{VCPUs: 1}, ImageProperties: map[string]string{"hw_disk_bus": "virtio", "hw_rng_model": "virtio"}}
	_, without, err := new(Options).Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	_, with, err := (&Options{ImageMetadata: true}).Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	bus, rng := `r.image.properties["hw_disk_bus"]`, `r.image.properties["hw_rng_model"]`
	if !slices.Equal(without, []string{bus, rng}) || !slices.Equal(with, []string{rng}) {
		t.Errorf("ignored %v, and %v with the option", without, with)
	}
}

// TestPCPUTakesThePlaceOfVCPU: a flavor that names PCPU gets no VCPU.
func TestPCPUTakesThePlaceOfVCPU(t *testing.T) {
	r, _, err := new(Options).Compile(Spec{Path: "r", Flavor: Flavor{VCPUs: 4, ExtraSpecs: map[string]string{"resources:PCPU": "4"}}})
	if want := []schedule.Amount{{Class: "PCPU", N: 4}}; err != nil || !slices.Equal(r.Resources, want) || r.Consume.VCPUs != 4 {
		t.Errorf("%v, of the view %+v, %v, want %v and 4 CPUs", r.Resources, r.Consume, err, want)
	}
}

// FuzzCompile: for any flavor and image, the request is refused or is valid for the core. Its
// amounts are above 0, its traits are symbols, and no trait is both required and forbidden.
func FuzzCompile(f *testing.F) {
	for _, s := range [][4]string{
		{"resources:VCPU", "2", "trait:CUSTOM_A", "required"},
		{"hw:cpu_policy", "mixed", "hw_cpu_policy", "shared"},
		{"hw:cpu_dedicated_mask", "^0-9", "hw_tpm_version", "2.0"},
		{"hw:pmem", "a, b--,", "hw_disk_bus", "virtio"},
		{"trait:COMPUTE_STATUS_DISABLED", "required", "hw_mem_encryption", "yes"},
		{"resources_:VCPU", "1", "hw_disk_bus", "\xff"},
	} {
		f.Add(s[0], s[1], s[2], s[3], int64(4))
	}
	f.Fuzz(func(t *testing.T, key, value, property, text string, vcpus int64) {
		o := Options{LimitTenants: true, IsolateAggregates: true, ImageMetadata: true, ImageTypeSupport: true}
		r, _, err := o.Compile(Spec{
			Path: "r", Resolved: true, DiskFormat: "raw",
			Flavor:          Flavor{VCPUs: vcpus, ExtraSpecs: map[string]string{key: value, "hw:cpu_policy": "mixed", "hw:cpu_realtime": "1"}},
			ImageProperties: map[string]string{property: text},
		})
		if err != nil {
			return
		}
		for _, a := range r.Resources {
			if a.N < 1 || !KnownResourceClass(a.Class) {
				t.Errorf("asks for %d of %q", a.N, a.Class)
			}
		}
		for _, trait := range append(slices.Clone(r.Required), r.Forbidden...) {
			if !symbol(trait) || slices.Contains(r.Required, trait) && slices.Contains(r.Forbidden, trait) {
				t.Errorf("required %v, forbidden %v", r.Required, r.Forbidden)
			}
		}
	})
}

func FuzzCPUsOf(f *testing.F) {
	for _, mask := range []string{"0-3", "^0", "1,^1", "^0-1,3", " 2 - 3 ", "0-999999999999", "9223372036854775807", "^"} {
		f.Add(mask, int64(4))
	}
	f.Fuzz(func(t *testing.T, mask string, n int64) {
		cpus, problem := cpusOf(mask, n)
		if problem != "" && cpus != nil {
			t.Fatalf("%q gives %v and %s", mask, cpus, problem)
		}
		for c := range cpus {
			if c < 0 || c >= n {
				t.Fatalf("%q of %d has CPU %d", mask, n, c)
			}
		}
	})
}
