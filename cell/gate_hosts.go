package cell

import (
	"fmt"
	"strings"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// hostComparison is what a gateway found in one epoch of the gate: of so many hosts whose
// services count, how many were looked at, and how many of those report other names, another
// capacity, other aggregates or another hypervisor than their rows say, by the newest look
// at each. A gate that opened would place instances where Nova does not, or find no room where Nova has some.
type hostComparison struct {
	epoch                 int64
	hosts, looked, differ int
	first                 []*cellgatev1.HostDifference
}

// comparisonOf reads what a gateway says; nil for nothing.
func comparisonOf(in *cellv1.HostComparison) *hostComparison {
	if in == nil {
		return nil
	}
	return &hostComparison{
		epoch: in.GetGateEpoch(), hosts: int(in.GetHosts()), looked: int(in.GetLookedAt()), differ: int(in.GetDiffer()), first: in.GetFirst(),
	}
}

func (c *hostComparison) String() string {
	const named = 2
	var first []string
	for _, d := range c.first[:min(len(c.first), named)] {
		first = append(first, d.GetHost()+": "+d.GetDetail())
	}
	text := strings.Join(first, "; ")
	if len(c.first) > named {
		text += "; …"
	}
	if c.differ == 1 {
		return "1 host that differs from its row: " + text
	}
	return fmt.Sprintf("%d hosts that differ from their rows: %s", c.differ, text)
}

// differing gives the report of the most hosts that differ from their rows in this
// SHADOW; nil when none says so.
func (e *evidence) differing(g *shard.Gate) (worst *hostComparison) {
	if g == nil || g.State != shard.GateShadow {
		return nil
	}
	for i := range e.reports {
		c := e.reports[i].compared
		if c != nil && c.epoch == g.EpochOf() && c.differ > 0 && (worst == nil || c.differ > worst.differ) {
			worst = c
		}
	}
	return worst
}

// notEqual says why hosts that were not found to be as their rows say keep a gate at
// SHADOW; "" when they do not: some gateway has looked at every one, and none found one
// that differs.
func (e *evidence) notEqual(g *shard.Gate) string {
	if g.State != shard.GateShadow {
		return ""
	}
	if d := e.differing(g); d != nil {
		return d.String()
	}
	var most *hostComparison
	for i := range e.reports {
		c := e.reports[i].compared
		switch {
		case c == nil || c.epoch != g.EpochOf():
		case c.looked >= c.hosts:
			return ""
		case most == nil || c.looked > most.looked:
			most = c
		}
	}
	if most == nil {
		return "no gateway has compared what agents report of their hosts with the rows"
	}
	return fmt.Sprintf("what agents report of %d of %d hosts was compared with the rows", most.looked, most.hosts)
}
