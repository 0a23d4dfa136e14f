package gate

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// Registration is what this replica knows of the agent of a compute node.
type Registration struct {
	// Agent: an agent reports the host, or did when the host's row was written.
	Agent        bool
	AgentVersion int32
	// Lacks is the first required class that the host's inventory lacks.
	Lacks string
	// Differs is how the agent's report differs from the host's imported row; only while the
	// gate is SHADOW.
	Differs []*cellgatev1.HostDifference
}

// Lacking returns the first required class that a host lacks; "" for none.
func (r Rules) Lacking(h *shard.Host) string {
	for _, class := range r.Classes {
		if !hasClass(h, class) {
			return class
		}
	}
	return ""
}

// FirstOf names the first of some ids, and how many more there are.
func FirstOf(ids []string) string {
	first := slices.Min(ids)
	if more := len(ids) - 1; more > 0 {
		return fmt.Sprintf("%s (and %d more)", first, more)
	}
	return first
}

// agreeFor is how long an agreement of a host's agent and its row on the values that change with
// instances counts. It is two of nova-compute's periods of 60 s, and a margin: a compute node's row,
// its instances' rows and an agent's report are written at different moments.
const agreeFor = 130 * time.Second

// hostComparisons keeps the results of comparing hosts during one epoch of the gate. The zero value is
// ready.
type hostComparisons struct {
	mu    sync.Mutex
	epoch int64
	hosts map[string]*comparedHost
}

// comparedHost is the result of the newest comparison of a row and a state. fixed are the differences
// that do not change with instances; agreed is when the values that do change last agreed.
type comparedHost struct {
	row, reported *shard.Host
	// effective is the reported host with Nova's aggregates and ratios.
	effective *shard.Host
	fixed     []*cellgatev1.HostDifference
	agreed    time.Time
}

// HostComparison is the input of a comparison. There describes how the instances differ; "" if they do
// not.
type HostComparison struct {
	Row, Reported *shard.Host
	Usage         *shard.Usage
	There         string
	Now           time.Time
}

// Differences returns how the agent's report of a host differs from its row; nil for no difference.
func (h *hostComparisons) Differences(epoch int64, c HostComparison) []*cellgatev1.HostDifference {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hosts == nil || h.epoch != epoch {
		h.epoch, h.hosts = epoch, map[string]*comparedHost{}
	}
	is := h.hosts[c.Row.UUID]
	if is == nil {
		is = &comparedHost{}
		h.hosts[c.Row.UUID] = is
	}
	if is.row != c.Row || is.reported != c.Reported {
		is.row, is.reported, is.effective = c.Row, c.Reported, shard.Followed(c.Reported, c.Row)
		is.fixed = fixedDifferences(c.Row, is.effective)
	}
	room := roomDifference(c.Row, is.effective, c.Usage)
	if room == "" && c.There == "" {
		is.agreed = c.Now
	}
	all := is.fixed
	if c.Now.Sub(is.agreed) > agreeFor {
		all = slices.Clone(all)
		if room != "" {
			all = append(all, differenceOf(c.Row, cellgatev1.HostDifference_CAPACITY, room))
		}
		if c.There != "" {
			all = append(all, differenceOf(c.Row, cellgatev1.HostDifference_INSTANCES, c.There))
		}
	}
	return all
}

func differenceOf(row *shard.Host, kind cellgatev1.HostDifference_Kind, detail string) *cellgatev1.HostDifference {
	const most = 1000
	if text := []rune(detail); len(text) > most {
		detail = string(text[:most-1]) + "…"
	}
	return &cellgatev1.HostDifference{Kind: kind, Host: row.ServiceHost, Detail: detail}
}

// fixedDifferences compares the values that no instance changes: the names, which requests and answers
// to Nova use, who reports the providers, the totals, and the hypervisor. Aggregates and allocation ratios are always Nova's.
func fixedDifferences(row, reported *shard.Host) (all []*cellgatev1.HostDifference) {
	add := func(kind cellgatev1.HostDifference_Kind, texts ...string) {
		if text := strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "; "); text != "" {
			all = append(all, differenceOf(row, kind, text))
		}
	}
	if row.TreeSource() == shard.TreeOfPlacement {
		add(cellgatev1.HostDifference_CAPACITY, "its nova-compute reports the host's providers to the Placement API, which refuses that once its agent reports them: then nova-compute builds nothing")
	}
	var totals []string
	for _, inv := range row.Providers[0].Inventories {
		if of, is := inventoryOf(reported, inv.ResourceClass); is && of.Total != inv.Total {
			totals = append(totals, fmt.Sprintf("row has %d %s, its agent reports %d", inv.Total, inv.ResourceClass, of.Total))
		}
	}
	add(cellgatev1.HostDifference_CAPACITY, totals...)
	add(cellgatev1.HostDifference_NAMES,
		unequal("row is of service host %q, its agent reports %q", row.ServiceHost, reported.ServiceHost),
		unequal("row is of node %q, its agent reports %q", row.NodeName, reported.NodeName))
	add(cellgatev1.HostDifference_HYPERVISOR,
		unequal("row says hypervisor %q, its agent %q", row.HypervisorType, reported.HypervisorType),
		unequal("row says hypervisor version %d, its agent %d", row.HypervisorVersion, reported.HypervisorVersion),
		supportedDifference(row, reported))
	return all
}

func unequal[T comparable](format string, a, b T) string {
	if a == b {
		return ""
	}
	return fmt.Sprintf(format, a, b)
}

// supportedDifference compares the column supported_instances as a set.
func supportedDifference(row, reported *shard.Host) string {
	a, b := supportedBy(row), supportedBy(reported)
	if lacks := missingIn(b, a); len(lacks) > 0 {
		return fmt.Sprintf("row supports %s, its agent reports none such", FirstOf(lacks))
	}
	if more := missingIn(a, b); len(more) > 0 {
		return fmt.Sprintf("its agent reports that it supports %s, row has none such", FirstOf(more))
	}
	return ""
}

func supportedBy(h *shard.Host) map[string]struct{} {
	all := map[string]struct{}{}
	if h.Facts != nil {
		for _, t := range schedule.ParseFacts(schedule.FactTexts{SupportedInstances: h.Facts.SupportedInstances}).Supported() {
			all[strings.Join(t[:], "/")] = struct{}{}
		}
	}
	return all
}

// diskApart is by how many GB the measured disk may differ, since both sides round.
const diskApart = 2

// roomDifference names the class of which an agent leaves more room to instances than the row does, or
// keeps back more than the row has in use without instances; "" for none. Instances count the same on
// both sides.
func roomDifference(row, reported *shard.Host, usage *shard.Usage) string {
	for _, inv := range row.Providers[0].Inventories {
		of, is := inventoryOf(reported, inv.ResourceClass)
		if !is {
			continue // missing classes are found by Rules.Lacking
		}
		apart := int64(0)
		if inv.ResourceClass == "DISK_GB" {
			apart = diskApart
		}
		switch a, b, used := inv.Free(0), of.Free(0), inv.Unaccounted+inv.Filled+usage.Of(row.UUID, inv.ResourceClass); {
		case b > a+apart:
			return fmt.Sprintf("row has room for %d %s, its agent for %d", a, inv.ResourceClass, b)
		case of.Reserved+of.Unaccounted > used+1+apart:
			return fmt.Sprintf("row has %d %s in use, reserved ones included, its agent keeps back %d", used, inv.ResourceClass, of.Reserved+of.Unaccounted)
		}
	}
	return ""
}

func inventoryOf(h *shard.Host, class string) (inv shard.Inventory, is bool) {
	all := h.Providers[0].Inventories
	i := slices.IndexFunc(all, func(i shard.Inventory) bool { return i.ResourceClass == class })
	if i < 0 {
		return inv, false
	}
	return all[i], true
}

func hasClass(h *shard.Host, class string) bool {
	for i := range h.Providers {
		for _, inv := range h.Providers[i].Inventories {
			if inv.ResourceClass == class {
				return true
			}
		}
	}
	return false
}

// missingIn returns the elements of all that a set lacks.
func missingIn(set, all map[string]struct{}) (missing []string) {
	for k := range all {
		if _, is := set[k]; !is {
			missing = append(missing, k)
		}
	}
	return missing
}
