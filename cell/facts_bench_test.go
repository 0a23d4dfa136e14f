package cell

import (
	"fmt"
	"strings"
	"testing"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// factsOfTwoNodes returns the facts of a machine with two NUMA nodes of 64 CPUs each. Only load
// varies.
func factsOfTwoNodes(load int) *agentv1.Facts {
	var cells []string
	for node := range 2 {
		var cpus []string
		for c := range 64 {
			cpus = append(cpus, fmt.Sprint(node*64+c))
		}
		list := strings.Join(cpus, ", ")
		cells = append(cells, fmt.Sprintf(`{"nova_object.name": "NUMACell", "nova_object.namespace": "nova", "nova_object.version": "1.5", "nova_object.data": {
			"id": %d, "cpuset": [%s], "pcpuset": [%s], "memory": 262144, "cpu_usage": 0, "memory_usage": 0, "pinned_cpus": [], "siblings": [], "mempages": [], "socket": %d}}`,
			node, list, list, node))
	}
	return &agentv1.Facts{
		CpuInfo:            `{"arch": "x86_64", "model": "Cascadelake-Server", "vendor": "Intel", "topology": {"cores": 32, "threads": 2, "sockets": 1}, "features": ["avx", "avx2", "aes", "vmx"]}`,
		SupportedInstances: `[["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"]]`, Stats: fmt.Sprintf(`{"load": "%d"}`, load),
		NumaTopology: `{"nova_object.name": "NUMATopology", "nova_object.namespace": "nova", "nova_object.version": "1.2", "nova_object.data": {"cells": [` + strings.Join(cells, ", ") + `]}}`,
		PciStats:     `{"nova_object.name": "PciDevicePoolList", "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": {"objects": []}}`,
	}
}

// BenchmarkState processes a host's states as an agent's stream does, until the table shows them.
// Each state has other facts than the one before, or the same.
func BenchmarkState(b *testing.B) {
	for _, name := range []string{"other facts", "the same facts"} {
		b.Run(name, func(b *testing.B) {
			r := start(b, newStore(b))
			a := r.agent()
			states := make([]*agentv1.FullState, 64)
			for i := range states {
				s := plainState(1, 8)
				s.Facts, s.IoWorkload = factsOfTwoNodes(i), int32(i)
				if name == "the same facts" {
					s.Facts = factsOfTwoNodes(0)
				}
				states[i] = s
			}
			version := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				m := states[version%uint64(len(states))]
				version++
				m.Version = version
				if got := a.report(m); got.GetAccepted() == nil {
					b.Fatal(got)
				}
			}
		})
	}
}
