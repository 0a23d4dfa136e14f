package hardware

import "testing"

// The largest pages, 16 GiB on ARM and POWER, are read. Larger sizes are refused.
func TestPagesOfEverySizeThereIsAreRead(t *testing.T) {
	for size, readable := range map[string]bool{"4": true, "64": true, "1048576": true, "16777216": true, "16777217": false, "0": false} {
		_, problems := Read(`{"nova_object.name": "NUMATopology", "nova_object.data": {"cells": [{"nova_object.data": {
			"id": 0, "cpuset": [0], "pcpuset": [0], "pinned_cpus": [], "siblings": [], "memory": 1, "cpu_usage": 0, "memory_usage": 0,
			"mempages": [{"nova_object.data": {"size_kb": `+size+`, "total": 1, "used": 0, "reserved": 0}}]}}]}}`, "")
		if failed := problems != nil; failed == readable {
			t.Errorf("pages of %s KiB: %v", size, problems)
		}
	}
}
