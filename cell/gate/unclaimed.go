package gate

import (
	"fmt"
	"strings"
	"time"

	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// unclaimedOf converts a gateway's report of instances without a claim; nil for none.
func unclaimedOf(in *cellv1.UnclaimedInstances) *unclaimed {
	if in == nil {
		return nil
	}
	out := &unclaimed{settled: in.GetSettledAt().AsTime(), count: int(in.GetCount())}
	for _, i := range in.GetFirst() {
		out.first = append(out.first, i.GetUuid()+" on "+i.GetHost())
	}
	return out
}

// unclaimedSince says why instances without a claim keep the gate shut, if all other conditions have
// held since a moment; "" if they do not. No instance that lacked a claim at that moment, or later, may
// still lack one.
func (e *Evidence) unclaimedSince(held time.Time) string {
	if why := e.withoutClaim(); why != "" {
		return why
	}
	looked := false
	for i := range e.reports {
		u := e.reports[i].unclaimed
		if u != nil && u.settled.Before(held) {
			return "a gateway is checking which instances of Nova's tables have no claim"
		}
		looked = looked || u != nil
	}
	if !looked {
		return "no gateway that imports has checked which instances of Nova's tables have no claim"
	}
	return ""
}

// withoutClaim names the instances that lacked a claim in two readings; "" for none.
func (e *Evidence) withoutClaim() string {
	var worst *unclaimed
	for i := range e.reports {
		if u := e.reports[i].unclaimed; u != nil && u.count > 0 && (worst == nil || u.count > worst.count) {
			worst = u
		}
	}
	if worst == nil {
		return ""
	}
	first := worst.first[:min(len(worst.first), 3)]
	text := strings.Join(first, ", ")
	if worst.count > len(first) {
		text += ", …"
	}
	what := "instances of Nova's tables have no claim in the shard"
	if worst.count == 1 {
		what = "instance of Nova's tables has no claim in the shard"
	}
	return fmt.Sprintf("%d %s: %s", worst.count, what, text)
}
