package rules

import (
	"cellgate/internal/config"
	"cellgate/schedule"
	"cellgate/schedule/nova"
)

// Config has the rules of decisions. The zero value of each field means its default.
type Config struct {
	// Filters and Weighers in their order; empty: schedule's defaults. See FiltersInForce.
	Filters  []string
	Weighers []config.Weigher
	// Options of filters and weighers; nil: Nova's defaults.
	Options *Options
	// PCIAliases are the aliases that flavors of the typed form may name ([pci] alias).
	PCIAliases []PCIAlias
	// DefaultAvailabilityZone is the zone of hosts that are in none ("nova").
	DefaultAvailabilityZone string
	// FilterExpression, in CEL, must be true for the hosts of every request. WeighExpression
	// gives hosts a raw weight, which WeighMultiplier multiplies; that has no default. Empty
	// for none; see docs/explanation/facts.md.
	FilterExpression, WeighExpression string
	WeighMultiplier                   float64
}

// Rules are a compiled configuration.
type Rules struct {
	cfg        Config
	configured configuredExpressions
	// Translation has the options with which requests are translated.
	Translation *nova.Options
}

// Compile checks a configuration and fills in its defaults.
func Compile(cfg Config) (*Rules, error) {
	cfg = cfg.WithDefaults()
	aliases, _, err := nova.NewAliases(cfg.PCIAliases)
	if err != nil {
		return nil, err
	}
	out := &Rules{cfg: cfg, Translation: translationOptions(cfg.Options, aliases)}
	out.configured, err = configuredIn(cfg)
	return out, err
}

func (cfg Config) WithDefaults() Config {
	if cfg.DefaultAvailabilityZone == "" {
		cfg.DefaultAvailabilityZone = "nova"
	}
	cfg.Filters = FiltersInForce(cfg.Filters)
	if len(cfg.Weighers) == 0 {
		cfg.Weighers = DefaultWeighers(releaseOf(cfg.Options))
	}
	return cfg
}

// Plain gives the rules without the configured expressions. A strategy replaces the configured weighers.
func (r *Rules) Plain(strategy string) *schedule.Rules { return rulesFor(r.cfg, strategy) }

// For gives the rules with the configured expressions. A strategy replaces the configured weighers and weight.
func (r *Rules) For(strategy string) *schedule.Rules {
	return r.configured.in(rulesFor(r.cfg, strategy), strategy)
}

// DefaultZone is the zone of hosts that are in none.
func (r *Rules) DefaultZone() string { return r.cfg.DefaultAvailabilityZone }

// TenantsRequireAggregate reports whether a request finds no host if no aggregate is named for its tenant.
func (r *Rules) TenantsRequireAggregate() bool {
	return r.cfg.Options != nil && r.cfg.Options.TenantsRequireAggregate
}
