package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/novarelease"
	"cellgate/schedule"
	"cellgate/schedule/nova"
)

// Check reports every problem of a configuration. legacy: there are cells under upgrade, whose rows have no facts.
func Check(cfg Config, legacy bool) error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, f := range UnknownNames(cfg.Filters, cfg.Weighers) {
		bad("%s: %s", f.Path, f.Problem)
	}
	if cfg.Options != nil {
		if _, err := novarelease.Parse(cfg.Options.Release); err != nil {
			bad("nova.nova_release: %v", err)
		}
	}
	if _, i, err := nova.NewAliases(cfg.PCIAliases); err != nil {
		bad("pci_alias[%d]: %v", i, err)
	}
	if o := cfg.Options; o != nil && o.DefaultArchitecture != "" {
		if canonical, ok := schedule.Architecture(o.DefaultArchitecture); !ok || canonical != o.DefaultArchitecture {
			bad("nova.image_properties_default_architecture: %q is no architecture that Nova knows", o.DefaultArchitecture)
		}
	}
	for _, f := range CheckExpressions(cfg.FilterExpression, cfg.WeighExpression, cfg.WeighMultiplier, legacy) {
		bad("%s: %s", f.Path, f.Problem)
	}
	return errors.Join(problems...)
}

// CheckPCIAliases gives the first alias that is invalid, by itself or together with those before it.
func CheckPCIAliases(all []PCIAlias) (index int, err error) {
	_, index, err = nova.NewAliases(all)
	return index, err
}

// PCIPlacementProblems gives the aliases that pci_in_placement makes invalid, and why.
func PCIPlacementProblems(all []PCIAlias) []string { return nova.PlacementProblems(all) }

// DefaultFilters are the filters when none are configured, in their order.
func DefaultFilters() []string { return schedule.DefaultFilters() }

// These filters run whatever is configured: without one, a requirement of a request would be
// dropped, or a claim would be refused that its filter had let pass. Those of alwaysFirst
// stand for what Nova asks of Placement, and for the request's own restrictions. Without
// those of alwaysLast, Nova refuses server groups of their policies.
var (
	alwaysFirst = []string{
		schedule.HostFilter, schedule.ComputeFilter, schedule.ZoneFilter, schedule.AggregateFilter, schedule.TraitFilter, schedule.ResourceFilter,
	}
	alwaysLast = []string{schedule.AntiAffinityFilter, schedule.AffinityFilter}
)

// FiltersInForce gives the filters that run for a configured list. If the list is empty,
// these are the defaults. Otherwise they are the configured ones in their order, and those
// that always run but are not named.
func FiltersInForce(configured []string) []string {
	if len(configured) == 0 {
		return DefaultFilters()
	}
	unnamed := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(configured, n) })
	}
	return slices.Concat(unnamed(alwaysFirst), configured, unnamed(alwaysLast))
}

// DefaultWeighers are the weighers when none are configured, with a release of Nova; 0 means the newest.
func DefaultWeighers(release novarelease.Release) (list []config.Weigher) {
	for _, w := range ofRelease(release, schedule.DefaultWeighers()) {
		list = append(list, config.Weigher(w))
	}
	return list
}

// UnknownNames reports every unknown or repeated filter and weigher by its path: filters[0],
// weighers[1].
func UnknownNames(filters []string, weighers []config.Weigher) []fault.Field {
	var bad []fault.Field
	// An empty table knows all names.
	check := func(path string, r *schedule.Rules) {
		var wrong *schedule.QueryError
		_, err := schedule.NewTable().Propose(&schedule.Query{Request: &schedule.Request{}, Rules: r, Limit: 1})
		switch {
		case errors.As(err, &wrong):
			if path == "" {
				path = strings.ToLower(strings.TrimPrefix(wrong.Field, "Rules."))
			}
			bad = append(bad, fault.Field{Path: path, Problem: wrong.Problem})
		case err != nil:
			bad = append(bad, fault.Field{Path: path, Problem: err.Error()})
		}
	}
	for i := range filters {
		check(fmt.Sprintf("filters[%d]", i), &schedule.Rules{Filters: filters[i : i+1]})
	}
	for i, w := range weighers {
		check(fmt.Sprintf("weighers[%d]", i), &schedule.Rules{Weighers: []schedule.Weigher{schedule.Weigher(w)}})
	}
	if len(bad) == 0 { // each is valid: check them together
		check("", rulesFor(Config{Filters: filters, Weighers: weighers}, ""))
	}
	return bad
}

// ofRelease leaves out Nova's default weighers that the release does not have.
func ofRelease(release novarelease.Release, list []schedule.Weigher) []schedule.Weigher {
	defaults := schedule.DefaultWeighers()
	return slices.DeleteFunc(list, func(w schedule.Weigher) bool {
		return !release.HasWeigher(w.Name) && slices.ContainsFunc(defaults, func(d schedule.Weigher) bool { return d.Name == w.Name })
	})
}

// rulesFor gives the rules without configured expressions. A strategy replaces the configured weighers.
func rulesFor(cfg Config, strategy string) *schedule.Rules {
	r := &schedule.Rules{Filters: cfg.Filters, DefaultAvailabilityZone: cfg.DefaultAvailabilityZone, Options: coreOptions(cfg.Options)}
	if named, ok := schedule.Strategy(strategy); ok {
		r.Weighers = ofRelease(releaseOf(cfg.Options), named)
		return r
	}
	for _, w := range cfg.Weighers {
		r.Weighers = append(r.Weighers, schedule.Weigher(w))
	}
	return r
}

// WeigherConfig is a weigher and its multiplier.
type WeigherConfig = config.Weigher

// PCIAlias is a name for PCI devices that flavors may ask for.
type PCIAlias = nova.Alias
