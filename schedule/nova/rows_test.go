package nova

import (
	"testing"
	"time"
)

// Free devices are those of the pools that the filters read. A text that is false to Python has no pools.
func TestHostFromRows_PCIStats_CountFreeDevices(t *testing.T) {
	const pool = `{"vendor_id": "8086", "product_id": "154c", "count": 3}`
	stats, free := "{}", int64(10)
	for text, want := range map[string]int64{
		"": 0, "null": 0, "0": 0, "false": 0, `""`: 0, "{}": 0, "[]": 0, "not JSON": 0,
		pool: 3, "[" + pool + "," + pool + "]": 6,
		`{"nova_object.name": "PciDevicePoolList", "nova_object.data": {"objects": [{"nova_object.data": ` + pool + `}]}}`: 3,
	} {
		h, err := HostFromRows(&ComputeNode{
			UUID: "00000000-0000-4000-8000-000000000001", FreeDiskGB: &free, Stats: &stats, SupportedInstances: "[]", PCIStats: &text,
		}, &Service{}, nil, time.Time{}, RowOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if h.View.PCIFree != want || len(h.Facts.Failed) > 0 {
			t.Errorf("%s: %d devices, failed %v, want %d", text, h.View.PCIFree, h.Facts.Failed, want)
		}
	}
}
