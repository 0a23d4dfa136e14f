package gateway

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

const (
	// maxQueryText bounds the text of a query, maxRestText the part that is neither
	// amounts nor rules.
	maxQueryText, maxRestText = 2000, 1000
)

// comparablePlacement is a placement without what both tables know each in its own way, so that such hosts
// would never stand in the same place: builds and tasks of late, which rows have as nova-compute counts them
// (io_workload, failed_builds), and an agent, which does not know of Nova's tasks, as its claims went; and,
// diskless, without all that goes by disk.
func comparablePlacement(placement []byte, diskless bool) []byte {
	p := &cellv1.Placement{}
	if err := proto.Unmarshal(placement, p); err != nil {
		return placement // a defect: this gateway wrote it; the cell refuses it
	}
	rules := p.GetRules()
	if rules == nil {
		return placement
	}
	rules.Filters = slices.DeleteFunc(rules.Filters, func(f string) bool {
		switch f {
		case schedule.IoOpsFilter, schedule.AggregateIoOpsFilter:
			return true
		case schedule.DiskFilter, schedule.AggregateDiskFilter, schedule.ExactDiskFilter:
			return diskless
		}
		return false
	})
	if diskless {
		p.Resources = slices.DeleteFunc(p.Resources, func(a *cellv1.Amount) bool { return a.GetResourceClass() == "DISK_GB" })
	}
	rules.Weighers = slices.DeleteFunc(rules.Weighers, func(w *cellv1.Weigher) bool {
		switch w.GetName() {
		case schedule.BuildFailureWeigher, schedule.IoOpsWeigher:
			return true
		case schedule.DiskWeigher:
			return diskless
		}
		return false
	})
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return placement
	}
	return text
}

// queryText says in words what a query asked, so that it can be asked again: amounts, what
// else restricts the hosts as JSON, filters, weighers with their multipliers, the seed.
func queryText(placement []byte, seed uint64) string {
	p := &cellv1.Placement{}
	if err := proto.Unmarshal(placement, p); err != nil {
		return "" // a defect: this gateway wrote it
	}
	var amounts, weighers []string
	for _, a := range p.GetResources() {
		amounts = append(amounts, fmt.Sprintf("%s %d", a.GetResourceClass(), a.GetAmount()))
	}
	for _, w := range p.GetRules().GetWeighers() {
		weighers = append(weighers, fmt.Sprintf("%s %v", w.GetName(), w.GetMultiplier()))
	}
	parts := []string{strings.Join(amounts, ", ")}
	filters := strings.Join(p.GetRules().GetFilters(), ", ")
	configured := &cellv1.Rules{FilterExpression: p.GetRules().GetFilterExpression(), WeighExpression: p.GetRules().GetWeighExpression()}
	p.Resources, p.Consume, p.Rules = nil, nil, nil
	if proto.Size(configured) > 0 {
		p.Rules = configured
	}
	if rest, err := (protojson.MarshalOptions{UseProtoNames: true}).Marshal(p); err == nil && string(rest) != "{}" {
		parts = append(parts, cutText(string(rest), maxRestText))
	}
	if filters != "" {
		parts = append(parts, "filters "+filters)
	}
	if len(weighers) > 0 {
		parts = append(parts, "weighers "+strings.Join(weighers, ", "))
	}
	return cutText(strings.Join(append(parts, fmt.Sprintf("seed %d", seed)), "; "), maxQueryText)
}

// cutText bounds a text to so many bytes, and a sign that there is more.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
