package nova

import (
	"slices"
	"strings"
	"testing"
)

// The extra specs in scopes where unknown keys are refused: those that Nova 26.2.2's API checks
// (nova/api/validation/extra_specs), and those of later releases.
const validatedExtraSpecs = `accel:device_profile group_policy hide_hypervisor_id hw:boot_menu hw:cpu_cores
hw:cpu_dedicated_mask hw:cpu_policy hw:cpu_realtime hw:cpu_realtime_mask hw:cpu_sockets hw:cpu_thread_policy
hw:cpu_threads hw:emulator_threads_policy hw:ephemeral_encryption hw:ephemeral_encryption_format
hw:hide_hypervisor_id hw:locked_memory hw:max_cpu_cores hw:max_cpu_sockets hw:max_cpu_threads hw:mem_encryption
hw:mem_page_size hw:numa_cpus.0 hw:numa_mem.0 hw:numa_nodes hw:pci_numa_affinity_policy hw:pmem hw:pmu
hw:serial_port_count hw:tpm_model hw:tpm_version hw:vif_multiqueue_enabled hw:viommu_model hw:watchdog_action
hw:maxphysaddr_mode hw:maxphysaddr_bits hw:tpm_secret_security hw:virtio_packed_ring hw:sound_model
hw:usb_model hw:redirected_usb_ports os:secure_boot pci_passthrough:alias`

func TestNovasExtraSpecsAreKnown(t *testing.T) {
	for key := range strings.FieldsSeq(validatedExtraSpecs) {
		if r := look(extraSpecs, key); r.care == refused {
			t.Errorf("%s is refused: %s", key, r.why)
		}
	}
}

// Keys that Nova does not have are refused, since their meaning is unknown. With strict_nova they
// are ignored, as in Nova.
func TestUnknownExtraSpecsAreRefused(t *testing.T) {
	for _, key := range []string{"hw:no_such", "accel:no_such", "hw:tpm_no_such", "hw:maxphysaddr_no_such"} {
		for _, strict := range []bool{false, true} {
			m := primitive(t)
			put(m, "/flavor//extra_specs", map[string]any{key: "1"})
			o := Options{Strict: strict}
			got, err := o.FromPrimitive(m)
			path := `nova_request_spec.flavor.extra_specs["` + key + `"]`
			if strict && (err != nil || !slices.Contains(got.Ignored, path)) || !strict && (err == nil || !strings.Contains(err.Error(), path)) {
				t.Errorf("%s, strict %v: %v, %+v", key, strict, err, got)
			}
		}
	}
}
