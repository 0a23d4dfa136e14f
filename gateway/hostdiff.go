package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// ReportedClass is what a cell has of a resource class of a host's root provider, as its
// agent reported it.
type ReportedClass struct {
	Class           string
	Total, Reserved int64
	Ratio           float64
}

const (
	// mostRatio is the greatest ratio that a cell takes: none above is a limit.
	mostRatio = 100_000
	// ratioPart is by what part of them ratios may differ: a FLOAT column has some seven
	// digits.
	ratioPart = 1e-5
	// reservedMore is how much more an agent may reserve than the row has in use: reserved
	// disk is rounded down to GB there, and up in inventories.
	reservedMore = 1
	// mostDetails bounds what is told of one host.
	mostDetails = 3
)

// CapacityDifference says how the capacity that an agent reports differs from that of the
// row; "" for not at all. No claim has a part in it: totals and ratios are compared, and
// that no more is reserved than the row has in use, reserved amounts included. (Less is
// reserved than in the row when more is free then: see freer.) A class of which it reports
// nothing is left to the cell, whose gate knows which there have to be.
func CapacityDifference(row *schedule.View, reported []ReportedClass) string {
	var all []string
	for _, c := range []struct {
		class       string
		total, used int64
		ratio       float64
	}{
		{"VCPU", row.VCPUsTotal, row.VCPUsUsed, row.CPURatio},
		{"MEMORY_MB", row.TotalRAMMB, row.TotalRAMMB - row.FreeRAMMB, row.RAMRatio},
		{"DISK_GB", row.TotalDiskGB, max((row.DiskUsedMB+1023)/1024, row.TotalDiskGB-row.FreeDiskMB/1024), row.DiskRatio},
	} {
		var of ReportedClass
		if i := slices.IndexFunc(reported, func(r ReportedClass) bool { return r.Class == c.class }); i >= 0 {
			of = reported[i]
		}
		a, b := min(c.ratio, mostRatio), min(of.Ratio, mostRatio)
		switch {
		case of.Total == 0 && of.Ratio == 0: // it reports no such class
		case c.total == of.Total && (c.total == 0 || math.Abs(a-b) <= ratioPart*max(a, b)):
			if c.total > 0 && of.Reserved > max(c.used, 0)+reservedMore {
				all = append(all, fmt.Sprintf("row has %d %s in use, reserved ones included, its agent reserves %d", c.used, c.class, of.Reserved))
			}
		default:
			text := fmt.Sprintf("row says %d %s (%s), its agent reports %d (%s", capacityOf(c.total, a), c.class, atRatio(c.total, a), capacityOf(of.Total-of.Reserved, b), atRatio(of.Total, b))
			if of.Reserved > 0 {
				text += fmt.Sprintf(", %d reserved", of.Reserved)
			}
			all = append(all, text+")")
		}
	}
	return strings.Join(all, "; ")
}

func atRatio(total int64, ratio float64) string {
	return fmt.Sprintf("%d, ratio %s", total, strconv.FormatFloat(ratio, 'g', -1, 64))
}

func capacityOf(n int64, ratio float64) int64 {
	if c := float64(n) * ratio; c < math.MaxInt64/2 {
		return int64(math.Floor(c))
	}
	return math.MaxInt64 / 2
}

// AggregatesDifference says how the aggregates that an agent reports differ from those of
// the row: by their uuids, their metadata, and the zones that follow; "" for not at all.
// Names mean nothing to any filter.
func AggregatesDifference(row []schedule.Aggregate, reported []*cellgatev1.HostAggregate) string {
	var all []string
	rows, agents := map[string]*schedule.Aggregate{}, map[string]*cellgatev1.HostAggregate{}
	var rowZones, agentZones []string
	for i := range row {
		rows[strings.ToLower(row[i].UUID)] = &row[i]
		rowZones = append(rowZones, schedule.ZonesOf(row[i].Metadata)...)
	}
	for _, a := range reported {
		agents[strings.ToLower(a.GetUuid())] = a
		agentZones = append(agentZones, schedule.ZonesOf(a.GetMetadata())...)
	}
	if a, b := zonesText(rowZones), zonesText(agentZones); a != b {
		all = append(all, fmt.Sprintf("row says %s, its agent %s", a, b))
	}
	for _, uuid := range slices.Sorted(maps.Keys(rows)) {
		a, b := rows[uuid], agents[uuid]
		if b == nil {
			all = append(all, fmt.Sprintf("row is in aggregate %s, its agent reports none of that uuid", aggregateText(uuid, a.Name, a.Metadata)))
			continue
		}
		keys := maps.Clone(a.Metadata)
		if keys == nil {
			keys = map[string]string{}
		}
		maps.Copy(keys, b.GetMetadata())
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			was, has := a.Metadata[key]
			is, too := b.GetMetadata()[key]
			if was != is || has != too {
				all = append(all, fmt.Sprintf("row says %s in aggregate %s, its agent %s", pairText(key, was, has), cmp.Or(a.Name, uuid), pairText(key, is, too)))
			}
		}
	}
	for _, uuid := range slices.Sorted(maps.Keys(agents)) {
		if rows[uuid] == nil {
			b := agents[uuid]
			all = append(all, fmt.Sprintf("its agent reports aggregate %s, row is in none of that uuid", aggregateText(uuid, b.GetName(), b.GetMetadata())))
		}
	}
	if n := len(all) - mostDetails; n > 0 {
		all = append(all[:mostDetails], fmt.Sprintf("%d more", n))
	}
	return strings.Join(all, "; ")
}

func zonesText(zones []string) string {
	slices.Sort(zones)
	switch zones = slices.Compact(zones); len(zones) {
	case 0:
		return "no zone"
	case 1:
		return "zone " + cutText(zones[0], 100)
	}
	return "zones " + cutText(strings.Join(zones, ", "), 100)
}

func aggregateText(uuid, name string, metadata map[string]string) string {
	text := uuid
	if name != "" {
		text = cutText(name, 100) + " (" + uuid + ")"
	}
	if len(metadata) == 0 {
		return text
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		pairs = append(pairs, key+"="+metadata[key])
	}
	return text + " with " + cutText(strings.Join(pairs, ", "), 200)
}

func pairText(key, value string, has bool) string {
	if !has {
		return "no " + cutText(key, 100)
	}
	return cutText(key+"="+value, 100)
}
