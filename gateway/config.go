package gateway

import (
	"errors"
	"fmt"
	"slices"

	"cellgate/gateway/rules"
	"cellgate/schedule"
)

// checkConfig reports every problem of a configuration at once.
func checkConfig(cfg Config, isLegacy bool) error {
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
		for _, id := range slices.Compact([]string{c.Name, c.UUID}) {
			if id == "" {
				continue
			}
			if other, ok := seen[id]; ok {
				bad("%s: %q names %s too", path, id, other)
			}
			seen[id] = path
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
	problems = append(problems, rules.Check(cfg.Config, isLegacy))
	return errors.Join(problems...)
}
