package agents

import (
	"unique"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// internTexts makes equal texts of many hosts share memory. The held state of each host, and its row,
// keep these texts.
func internTexts(providers []*agentv1.Provider, instances []*agentv1.Instance, aggregates []*agentv1.Aggregate, facts *agentv1.Facts) {
	for _, p := range providers {
		for i := range p.GetTraits() {
			intern(&p.Traits[i])
		}
		for _, i := range p.GetInventories() {
			intern(&i.ResourceClass)
		}
	}
	for _, i := range instances {
		intern(&i.ProjectId)
		intern(&i.UserId)
		for _, u := range i.GetUsages() {
			intern(&u.ProviderUuid)
			intern(&u.ResourceClass)
		}
	}
	if facts != nil {
		intern(&facts.CpuInfo)
		intern(&facts.SupportedInstances)
		intern(&facts.NumaTopology)
		intern(&facts.PciStats)
	}
	for _, a := range aggregates {
		intern(&a.Uuid)
		intern(&a.Name)
		for key, v := range a.GetMetadata() {
			a.Metadata[unique.Make(key).Value()] = unique.Make(v).Value()
		}
	}
}

func intern(text *string) { *text = unique.Make(*text).Value() }
