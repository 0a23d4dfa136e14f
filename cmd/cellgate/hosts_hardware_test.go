package main

import (
	"strings"
	"testing"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestGetHost_WithHardware_ShowsCellsDevicesAndTheirHolders(t *testing.T) {
	const gpu = "dev_type=type-pci,product_id=20b5,vendor_id=10de"
	out := page{width: pageWidth}
	showHost(&out, &cellgatev1.GetHostResponse{Host: &cellgatev1.Host{
		ServiceHost: "h1",
		NumaCells: []*cellgatev1.HostNumaCell{{
			SharedCpus: "0-3", DedicatedCpus: "4-7", PinnedCpus: "4-6", CpusUsed: 1, MemoryMb: 1024, MemoryUsedMb: 164,
			Pages: []*cellgatev1.HostPages{{SizeKb: 4, Total: 9, Used: 2, Reserved: 1}, {SizeKb: 1 << 20, Total: 4}},
		}},
		DevicePools: []*cellgatev1.HostDevicePool{{Devices: gpu, NumaCell: -1, ReportedFree: 2, Free: 1}},
		HardwareClaims: []*cellgatev1.HardwareClaim{{
			InstanceUuid: "i1", Devices: map[string]int32{gpu: 1}, NumaCells: []*cellgatev1.NumaCellClaim{{PinnedCpus: "5-6", MemoryMb: 64, PageSizeKb: 2048}},
		}},
	}})
	for _, want := range []string{
		"0          0-3          4-7        4-6     1            164/1024   6 of 4 KiB, 4 of 1 GiB\n",
		"dev_type=type-pci, product_id=20b5, vendor_id=10de  -          1     1\n",
		"i1        cell 0: CPUs 5-6, 64 MB in pages of 2 MiB  1 × dev_type=type-pci, product_id=20b5,",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	if showHost(&out, &cellgatev1.GetHostResponse{Host: &cellgatev1.Host{ServiceHost: "h1"}}); strings.Contains(out.String(), "NUMA") || strings.Contains(out.String(), "DEVICES") {
		t.Errorf("a host without:\n%s", out.String())
	}
}
