package sqlshard

import (
	"encoding/json"
	"slices"

	"cellgate/shard"
)

// hostRows writes registrations. Most only change a few numbers: what is in tables of
// its own is written when it differs.
func (w *writes) hostRows(hosts []*shard.Host) {
	if len(hosts) == 0 {
		return
	}
	w.queue(putHosts,
		column(hosts, hostUUID),
		column(hosts, func(h *shard.Host) int64 { return h.Generation }),
		column(hosts, func(h *shard.Host) string { return h.ServiceHost }),
		column(hosts, func(h *shard.Host) string { return h.NodeName }),
		column(hosts, func(h *shard.Host) bool { return h.Disabled }),
		column(hosts, func(h *shard.Host) string { return h.DisabledReason }),
		column(hosts, func(h *shard.Host) int64 { return int64(h.IOWorkload) }),
		column(hosts, func(h *shard.Host) int64 { return int64(h.FailedBuilds) }),
		column(hosts, func(h *shard.Host) string { return h.HypervisorType }),
		column(hosts, func(h *shard.Host) int64 { return int64(h.HypervisorVersion) }),
		column(hosts, func(h *shard.Host) string { return h.HostIP }),
		column(hosts, func(h *shard.Host) int64 { return int64(h.AgentVersion) }),
		column(hosts, func(h *shard.Host) string { return h.BootID }),
		column(hosts, func(h *shard.Host) int64 { return int64(h.StateVersion) }),
		column(hosts, func(h *shard.Host) bool { return h.Imported }),
		column(hosts, func(h *shard.Host) bool { return h.InstancesUnknown }),
		column(hosts, novaText))
	w.facts(w.differing(hosts, func(a, b *shard.Host) bool {
		return a.Facts == b.Facts || a.Facts != nil && b.Facts != nil && *a.Facts == *b.Facts
	}))
	w.trees(w.differing(hosts, func(a, b *shard.Host) bool { return slices.EqualFunc(a.Providers, b.Providers, sameProvider) }))
	w.aggregates(w.differing(hosts, func(a, b *shard.Host) bool {
		return shard.SameAggregates(a.Aggregates, b.Aggregates)
	}))
}

// novaText is what Nova says of a host; "" for nothing.
func novaText(h *shard.Host) string {
	if h.Nova == nil {
		return ""
	}
	b, _ := json.Marshal(h.Nova) // texts, and ratios that are finite, do not fail
	return string(b)
}

func hostUUID(h *shard.Host) string { return h.UUID }

func sameProvider(a, b shard.Provider) bool {
	return a.UUID == b.UUID && a.ParentUUID == b.ParentUUID && a.Name == b.Name &&
		slices.Equal(a.Traits, b.Traits) && slices.Equal(a.Inventories, b.Inventories)
}

// differing gives the hosts that are new or not the same as before.
func (w *writes) differing(hosts []*shard.Host, same func(a, b *shard.Host) bool) []*shard.Host {
	var list []*shard.Host
	for _, h := range hosts {
		if old := w.before.hosts[h.UUID]; old == nil || !same(old, h) {
			list = append(list, h)
		}
	}
	return list
}

// clear deletes the rows that hosts had in tables.
func (w *writes) clear(hosts []*shard.Host, tables ...string) {
	var had []string
	for _, h := range hosts {
		if w.before.hosts[h.UUID] != nil {
			had = append(had, h.UUID)
		}
	}
	if len(had) > 0 {
		for _, sql := range tables {
			w.queue(sql, had)
		}
	}
}

func (w *writes) facts(hosts []*shard.Host) {
	w.clear(hosts, deleteFacts)
	hosts = slices.DeleteFunc(hosts, func(h *shard.Host) bool { return h.Facts == nil })
	if len(hosts) > 0 {
		w.queue(insertFacts,
			column(hosts, hostUUID),
			column(hosts, func(h *shard.Host) string { return h.Facts.CPUInfo }),
			column(hosts, func(h *shard.Host) string { return h.Facts.SupportedInstances }),
			column(hosts, func(h *shard.Host) string { return h.Facts.Stats }),
			column(hosts, func(h *shard.Host) string { return h.Facts.Metrics }),
			column(hosts, func(h *shard.Host) string { return h.Facts.NUMATopology }),
			column(hosts, func(h *shard.Host) string { return h.Facts.PCIStats }),
			column(hosts, func(h *shard.Host) string { return h.Facts.Namespaces }))
	}
}

// of is a row of a host, with its place in a list.
type of[T any] struct {
	host, provider string
	ordinal        int64
	row            T
}

func ofHost[T any](o of[T]) string     { return o.host }
func ofProvider[T any](o of[T]) string { return o.provider }
func place[T any](o of[T]) int64       { return o.ordinal }

func (w *writes) trees(hosts []*shard.Host) {
	w.clear(hosts, deleteProviders, deleteStock, deleteTraits)
	var providers []of[shard.Provider]
	var stock []of[shard.Inventory]
	var traits []of[string]
	for _, h := range hosts {
		for i, p := range h.Providers {
			providers = append(providers, of[shard.Provider]{h.UUID, p.UUID, int64(i), p})
			for j, inv := range p.Inventories {
				stock = append(stock, of[shard.Inventory]{h.UUID, p.UUID, int64(j), inv})
			}
			for j, t := range p.Traits {
				traits = append(traits, of[string]{h.UUID, p.UUID, int64(j), t})
			}
		}
	}
	if len(providers) > 0 {
		w.queue(insertProviders, column(providers, ofHost), column(providers, place), column(providers, ofProvider),
			column(providers, func(p of[shard.Provider]) string { return p.row.ParentUUID }),
			column(providers, func(p of[shard.Provider]) string { return p.row.Name }))
	}
	if len(stock) > 0 {
		w.queue(insertInventories, column(stock, ofHost), column(stock, ofProvider),
			column(stock, func(i of[shard.Inventory]) string { return i.row.ResourceClass }),
			column(stock, place),
			column(stock, func(i of[shard.Inventory]) int64 { return i.row.Total }),
			column(stock, func(i of[shard.Inventory]) int64 { return i.row.Reserved }),
			column(stock, func(i of[shard.Inventory]) int64 { return i.row.MinUnit }),
			column(stock, func(i of[shard.Inventory]) int64 { return i.row.MaxUnit }),
			column(stock, func(i of[shard.Inventory]) int64 { return i.row.StepSize }),
			column(stock, func(i of[shard.Inventory]) float64 { return i.row.AllocationRatio }),
			column(stock, func(i of[shard.Inventory]) int64 { return i.row.Unaccounted }))
	}
	if len(traits) > 0 {
		w.queue(insertTraits, column(traits, ofHost), column(traits, ofProvider), column(traits, place),
			column(traits, func(t of[string]) string { return t.row }))
	}
}

func (w *writes) aggregates(hosts []*shard.Host) {
	w.clear(hosts, deleteAggregates)
	var rows []of[shard.Aggregate]
	for _, h := range hosts {
		for i, a := range h.Aggregates {
			rows = append(rows, of[shard.Aggregate]{host: h.UUID, ordinal: int64(i), row: a})
		}
	}
	if len(rows) > 0 {
		w.queue(insertAggregates, column(rows, ofHost), column(rows, place),
			column(rows, func(a of[shard.Aggregate]) string { return a.row.UUID }),
			column(rows, func(a of[shard.Aggregate]) string { return a.row.Name }),
			column(rows, func(a of[shard.Aggregate]) string {
				b, _ := json.Marshal(a.row.Metadata) // texts do not fail
				return string(b)
			}))
	}
}
