package nova

import "testing"

// BenchmarkCompile translates a request of the typed form: with a flavor alone, with a typical
// image and extra specs, and with NUMA nodes.
func BenchmarkCompile(b *testing.B) {
	plain := Spec{Path: "r", Flavor: Flavor{Name: "m1", VCPUs: 2, MemoryMB: 4096, RootGB: 20}, ProjectID: "p"}
	usual := plain
	usual.HasImage, usual.ImageID = true, "b1000000-0000-4000-8000-000000000001"
	usual.ImageProperties = map[string]string{"hw_disk_bus": "scsi", "hw_scsi_model": "virtio-scsi", "os_type": "linux", "hw_qemu_guest_agent": "yes"}
	usual.Flavor.ExtraSpecs = map[string]string{"aggregate_instance_extra_specs:ssd": "true", "quota:cpu_shares": "1", "hw:cpu_policy": "shared"}
	numa := usual
	numa.Flavor.ExtraSpecs = map[string]string{"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2", "hw:mem_page_size": "large"}
	for _, c := range []struct {
		name string
		spec Spec
	}{{"plain", plain}, {"usual", usual}, {"numa", numa}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := new(Options).Compile(c.spec); err != nil {
					b.Fatal(err)
				}
			}
		})
		if c.name == "numa" {
			continue
		}
		b.Run(c.name+", resolved", func(b *testing.B) {
			b.ReportAllocs()
			c.spec.Resolved = true
			for b.Loop() {
				if _, _, err := new(Options).Compile(c.spec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
