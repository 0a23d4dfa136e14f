package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// facts of a host of model m at p: its CPU and the guests it can run, as Nova's libvirt driver reports
// them, and the rack as an operator-defined capability.
func (p place) facts(m model) *agentv1.Facts {
	vendor, cpu := "Intel", "Cascadelake-Server"
	if slices.Contains(m.traits, "HW_CPU_X86_AMD_SVM") {
		vendor, cpu = "AMD", "EPYC-Rome"
	}
	var features []string
	for _, t := range p.traits(m) {
		if f, ok := strings.CutPrefix(t, "HW_CPU_X86_"); ok {
			features = append(features, strings.ToLower(f))
		}
	}
	slices.Sort(features)
	numa, pci := m.hardware()
	return &agentv1.Facts{
		CpuInfo: JSONText(map[string]any{
			"arch": "x86_64", "vendor": vendor, "model": cpu, "features": features,
			"topology": map[string]any{"cells": max(2, m.nodes), "sockets": 1, "cores": int(m.threads) / 2 / max(2, m.nodes), "threads": 2},
		}),
		SupportedInstances: `[["i686", "kvm", "hvm"], ["x86_64", "kvm", "hvm"]]`,
		Stats:              JSONText(map[string]any{"rack": fmt.Sprintf("r%02d", p.rack), "machine": m.name}),
		NumaTopology:       numa,
		PciStats:           pci,
	}
}

// JSONText encodes a value of texts and whole numbers as JSON.
func JSONText(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // such values can always be encoded
		panic(err)
	}
	return string(b)
}
