package gateway

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"cellgate/schedule"
)

// checkConfig reports every problem of a configuration at once.
func checkConfig(cfg Config) error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(cfg.Cells) == 0 {
		bad("cells: at least one cell is needed")
	}
	seen := map[string]string{}
	for i, c := range cfg.Cells {
		path := fmt.Sprintf("cells[%d]", i)
		if c.Name == "" {
			bad("%s.name: must not be empty", path)
		}
		if c.UUID != "" {
			if _, err := schedule.ParseID(c.UUID); err != nil {
				bad("%s.uuid: %w", path, err)
			}
		}
		for _, word := range slices.Compact([]string{c.Name, c.UUID}) {
			if word == "" {
				continue
			}
			if other, ok := seen[word]; ok {
				bad("%s: %q names %s too", path, word, other)
			}
			seen[word] = path
		}
		if len(c.Replicas) == 0 {
			bad("%s.replicas: at least one address is needed", path)
		}
	}
	if cfg.ProposeBudget < 0 || cfg.ClaimBudget < 0 || cfg.MaxDeadline < 0 {
		bad("propose_budget, claim_budget, max_deadline: must not be negative")
	}
	if cfg.MaxInFlight < 0 || cfg.DecisionQueue < 0 {
		bad("max_in_flight, decision_queue: must not be negative")
	}
	b := cfg.Breaker
	if b.Failures < 0 || b.OpenFor < 0 || b.ProbeEvery < 0 || b.ProbeBudget < 0 {
		bad("breaker: must not be negative")
	}
	if longest := longestBudget(cfg); b.Window <= longest {
		bad("breaker window: %v is not longer than every budget (%v): calls that take as long would not count", b.Window, longest)
	}
	// An empty table knows the names there are.
	q := &schedule.Query{Request: &schedule.Request{}, Rules: rulesFor(cfg, ""), Limit: 1}
	if _, err := schedule.NewTable().Propose(q); err != nil {
		bad("filters, weighers: %w", err)
	}
	return errors.Join(problems...)
}

// longestBudget is the longest that one call to a cell may take.
func longestBudget(cfg Config) time.Duration {
	return max(cfg.ProposeBudget, cfg.ClaimBudget, cfg.Breaker.ProbeBudget)
}

// rulesFor gives what to decide by. A strategy replaces the configured weighers.
func rulesFor(cfg Config, strategy string) *schedule.Rules {
	r := &schedule.Rules{Filters: cfg.Filters, DefaultAvailabilityZone: cfg.DefaultAvailabilityZone}
	switch strategy {
	case "spread":
		r.Weighers = schedule.DefaultWeighers()
	case "pack":
		r.Weighers = schedule.PackWeighers()
	default:
		for _, w := range cfg.Weighers {
			r.Weighers = append(r.Weighers, schedule.Weigher(w))
		}
	}
	return r
}
