package cell

import (
	"math"
	"strings"
	"testing"

	"cellgate/internal/hoststate"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// An implausible value is refused with its field, and the stream continues.
func TestAnAgentIsRefusedWhatItCannotMean(t *testing.T) {
	r := start(t, newStore(t))
	a := r.agent()
	for path, change := range map[string]func(s *agentv1.FullState){
		"version":             func(s *agentv1.FullState) { s.Version = math.MaxUint64 },
		"service_host":        func(s *agentv1.FullState) { s.ServiceHost = "a\nb" },
		"nodename":            func(s *agentv1.FullState) { s.Nodename = " " },
		"facts.cpu_info":      func(s *agentv1.FullState) { s.Facts = &agentv1.Facts{CpuInfo: "["} },
		"facts.stats":         func(s *agentv1.FullState) { s.Facts = &agentv1.Facts{Stats: "[]"} },
		"facts.numa_topology": func(s *agentv1.FullState) { s.Facts = &agentv1.Facts{NumaTopology: "{}"} },
	} {
		s := plainState(1, 8)
		change(s)
		got := a.report(s).GetRefused()
		if len(got.GetProblems()) != 1 || !strings.HasPrefix(got.GetProblems()[0], path+": ") {
			t.Errorf("%s: %v", path, got)
		}
	}
	s := plainState(1, 8)
	s.Version = hoststate.MaxVersion
	s.Facts = &agentv1.Facts{CpuInfo: `{"arch": "x86_64"}`, Stats: "{}", NumaTopology: `{"nova_object.name": "NUMATopology", "nova_object.data": {"cells": []}}`}
	if got := a.report(s); got.GetAccepted() == nil {
		t.Errorf("what an agent says: %v", got)
	}
}
