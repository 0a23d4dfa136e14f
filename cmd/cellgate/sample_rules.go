package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellgate/gateway"
	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/samples"
)

// ownRules is how the rules of a gateway differ from the defaults, which the
// samples' expectations hold for.
type ownRules struct {
	// differ has what is not as by default, in words; empty when all is.
	differ []string
	// passMore: what the defaults refuse may be placed.
	passMore bool
	// fleet is one that is smaller than the sample is written for, in words; empty when it is
	// not. fewerCells: it has not all cells that the sample names.
	fleet      string
	fewerCells bool
}

// in adds how the fleet differs.
func (r ownRules) in(c config.Dev) ownRules {
	if r.fewerCells = c.Cells < samples.MinCells; r.fewerCells || c.Hosts < samples.MinHosts {
		r.fleet = fmt.Sprintf("%s of %s", counted(c.Cells, "cell"), counted(c.Hosts, "host"))
	}
	return r
}

// fleetNote says before the sample is sent what a smaller fleet is too small for; "" of others.
func (r ownRules) fleetNote() string {
	if r.fleet == "" {
		return ""
	}
	return fmt.Sprintf("The sample is written for %d cells of %d hosts, or more. This fleet has %s: what needs more is refused, and marked.\n", samples.MinCells, samples.MinHosts, r.fleet)
}

// ownRulesOf compares what a gateway chooses hosts by. An option that differs
// counts whether or not a filter or weigher that runs reads it.
func ownRulesOf(g config.Gateway) ownRules {
	var r ownRules
	standard := config.Default().Gateway
	inForce := gateway.FiltersInForce(g.Filters)
	for _, f := range gateway.DefaultFilters() {
		if !slices.Contains(inForce, f) {
			r.differ, r.passMore = append(r.differ, "without "+f), true
		}
	}
	for _, f := range inForce {
		if !slices.Contains(gateway.DefaultFilters(), f) {
			r.differ = append(r.differ, f)
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

// weighers compares the multipliers; a weigher that does not run has 0.
func (r *ownRules) weighers(g config.Gateway) {
	if len(g.Weighers) == 0 {
		return
	}
	own := multipliersOf(g)
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
// these refuse. A smaller fleet refuses more, and the cells that it lacks. Nothing excuses
// another error.
func (r ownRules) judge(o outcome) judgement {
	got := o.got()
	switch {
	case got == o.sample.Expect:
		return expected
	case got == samples.Refused && (len(r.differ) > 0 || r.fleet != ""), got == samples.Placed && r.passMore:
		return otherwise
	case r.fewerCells && namesNoCell(o.err):
		return otherwise
	}
	return unexpected
}

// namesNoCell reports whether a request was refused for a cell that there is not.
func namesNoCell(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Kind == fault.InvalidRequest && len(e.Fields) == 1 && strings.HasSuffix(e.Fields[0].Path, "requested_destination.cell")
}

// mark begins the words about an outcome that is not the expected one.
func (r ownRules) mark(j judgement, s samples.Sample) string {
	switch {
	case j == otherwise && r.fleet != "":
		return fmt.Sprintf("IN A SMALLER FLEET (%s in a full one): ", s.Expect)
	case j == otherwise:
		return fmt.Sprintf("BY OTHER RULES (%s by default): ", s.Expect)
	case j == unexpected:
		return fmt.Sprintf("UNEXPECTED (%s was): ", s.Expect)
	}
	return ""
}
