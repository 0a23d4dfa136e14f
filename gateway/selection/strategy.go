package selection

import (
	"slices"
	"strings"

	"cellgate/internal/fault"
	"cellgate/schedule"
	"cellgate/schedule/nova"
)

// strategyOf gives the strategy of a request, from the typed form or from a hint of either
// form; path is the form's. It removes the hint from the request.
func strategyOf(r *schedule.Request, named, path string) (string, error) {
	if r.Nova == nil {
		return named, nil
	}
	at := slices.IndexFunc(r.Nova.Hints, func(h schedule.Hint) bool { return h.Name == nova.StrategyHint })
	if at < 0 {
		return named, nil
	}
	hinted := r.Nova.Hints[at].Values
	r.Nova.Hints = slices.Delete(r.Nova.Hints, at, at+1)
	hint := path + `.scheduler_hints["` + nova.StrategyHint + `"]`
	if len(hinted) != 1 {
		return "", fault.Invalid(hint, "must be one strategy, is %d", len(hinted))
	}
	if _, ok := schedule.Strategy(hinted[0]); !ok {
		return "", fault.Invalid(hint, "must be one of %s, not %.40q", strings.Join(schedule.Strategies(), ", "), hinted[0])
	}
	if named != "" && named != hinted[0] {
		return "", fault.Invalid(hint, "is another strategy than %s.strategy", path)
	}
	return hinted[0], nil
}
