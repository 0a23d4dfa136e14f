package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellgate/gateway"
	"cellgate/internal/config"
	"cellgate/samples"
)

// ownRules is how the rules of a gateway differ from the defaults, which the
// samples' expectations hold for.
type ownRules struct {
	// differ has what is not as by default, in words; empty when all is.
	differ []string
	// passMore: what the defaults refuse may be placed.
	passMore bool
}

// ownRulesOf compares what a gateway chooses hosts by. An option that differs
// counts whether or not a filter or weigher that runs reads it.
func ownRulesOf(g config.Gateway) ownRules {
	var r ownRules
	standard := config.Default().Gateway
	if len(g.Filters) > 0 {
		for _, f := range gateway.DefaultFilters() {
			if !slices.Contains(g.Filters, f) {
				r.differ, r.passMore = append(r.differ, "without "+f), true
			}
		}
		for _, f := range g.Filters {
			if !slices.Contains(gateway.DefaultFilters(), f) {
				r.differ = append(r.differ, f)
			}
		}
	}
	r.weighers(g)
	for _, k := range config.Keys("gateway") {
		zone := k.Path == "gateway.default_availability_zone"
		if !zone && !strings.HasPrefix(k.Path, "gateway.nova.") {
			continue
		}
		own := config.Value(config.Config{Gateway: g}, k.Path)
		if shown(own) == shown(config.Value(config.Config{Gateway: standard}, k.Path)) {
			continue
		}
		r.differ = append(r.differ, strings.TrimPrefix(strings.TrimPrefix(k.Path, "gateway."), "nova.")+"="+shown(own))
		r.passMore = r.passMore || zone
	}
	return r
}

// metricsWeigher weighs nothing without metrics.
const metricsWeigher = "MetricsWeigher"

// weighers compares the multipliers; a weigher that does not run has 0.
func (r *ownRules) weighers(g config.Gateway) {
	if len(g.Weighers) == 0 {
		return
	}
	own := map[string]float64{}
	for _, w := range g.Weighers {
		if w.Name != metricsWeigher || len(g.Nova.MetricsSetting) > 0 {
			own[w.Name] = w.Multiplier
		}
	}
	standard := map[string]float64{}
	for _, w := range gateway.DefaultWeighers() {
		standard[w.Name] = w.Multiplier
	}
	names := map[string]struct{}{}
	for _, weights := range []map[string]float64{own, standard} {
		for name := range weights {
			if own[name] != standard[name] {
				names[name] = struct{}{}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		r.differ = append(r.differ, fmt.Sprintf("%s=%v", name, own[name]))
	}
}

// judgement is what an outcome says of the system.
type judgement int

const (
	expected judgement = iota
	// otherwise than by the default rules, as other rules may have it.
	otherwise
	unexpected
)

// judge: by the default rules an outcome is as the sample's file says. Other filters,
// weights and options may refuse what these place; only those that passMore place what
// these refuse. No rules excuse an error.
func (r ownRules) judge(o outcome) judgement {
	got := o.got()
	switch {
	case got == o.sample.Expect:
		return expected
	case got == samples.Refused && len(r.differ) > 0, got == samples.Placed && r.passMore:
		return otherwise
	}
	return unexpected
}

// mark begins the words about an outcome that is not the expected one.
func (j judgement) mark(s samples.Sample) string {
	switch j {
	case otherwise:
		return fmt.Sprintf("BY OTHER RULES (%s by default): ", s.Expect)
	case unexpected:
		return fmt.Sprintf("UNEXPECTED (%s was): ", s.Expect)
	}
	return ""
}
