package sqlshard

import (
	"encoding/json"
	"slices"

	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// hostSearch are the values that hosts are searched by, as JSON texts for the columns of the same names.
type hostSearch struct {
	inventories, traits, childClasses, childTraits, aggregates, zones string
}

// searchOf gives the searched columns of a host. The first provider is the root.
func searchOf(h *shard.Host) hostSearch {
	inventories := map[string][]int64{}
	traits, childClasses, childTraits := []string{}, []string{}, []string{}
	for i := range h.Providers {
		p := &h.Providers[i]
		if p.UUID != h.UUID {
			childTraits = append(childTraits, p.Traits...)
			for _, inv := range p.Inventories {
				childClasses = append(childClasses, inv.ResourceClass)
			}
			continue
		}
		traits = append(traits, p.Traits...)
		for _, inv := range p.Inventories {
			inventories[inv.ResourceClass] = []int64{inv.Free(0), int64(inv.MaxUnit), int64(inv.MinUnit), int64(inv.StepSize)}
		}
	}
	aggregates, zones := []string{}, []string{}
	for i := range h.Aggregates {
		a := &h.Aggregates[i]
		aggregates = append(aggregates, a.UUID)
		names, zoned := a.Zones()
		if zoned && len(names) == 0 {
			names = []string{""} // matches no query, and keeps the host out of the default zone
		}
		zones = append(zones, names...)
	}
	return hostSearch{
		jsonText(inventories), jsonText(traits), jsonText(distinct(childClasses)), jsonText(distinct(childTraits)),
		jsonText(aggregates), jsonText(distinct(zones)),
	}
}

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

func jsonText(v any) string {
	b, _ := json.Marshal(v) // lists of texts and numbers always encode
	return string(b)
}

// hostRows writes registrations.
func (w *writes) hostRows(hosts []encoded[shard.Host]) {
	if len(hosts) == 0 {
		return
	}
	search := column(hosts, func(h encoded[shard.Host]) hostSearch { return searchOf(h.row) })
	w.queue(putHosts,
		column(hosts, func(h encoded[shard.Host]) string { return h.row.UUID }),
		column(hosts, func(h encoded[shard.Host]) string { return h.row.ServiceHost }),
		column(hosts, func(h encoded[shard.Host]) string { return h.row.NodeName }),
		column(hosts, func(h encoded[shard.Host]) bool { return h.row.Disabled || h.row.ServiceHost == "" }),
		column(search, func(s hostSearch) string { return s.inventories }),
		column(search, func(s hostSearch) string { return s.traits }),
		column(search, func(s hostSearch) string { return s.childClasses }),
		column(search, func(s hostSearch) string { return s.childTraits }),
		column(search, func(s hostSearch) string { return s.aggregates }),
		column(search, func(s hostSearch) string { return s.zones }),
		column(hosts, func(h encoded[shard.Host]) []byte { return rowcodec.Pack(h.body) }))
}
