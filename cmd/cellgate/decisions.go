package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newDecisions(t terminal) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:     "decisions",
		Short:   "List and show what was decided, and why",
		Example: "  cellgate decisions list --outcome refused",
	})
	c := newClient(cmd, t)
	cmd.AddCommand(newDecisionsList(c), newDecisionsGet(c))
	return cmd
}

func newDecisionsList(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List decisions, the newest first",
		Example: `  cellgate decisions list --outcome refused --limit 20
  cellgate decisions list --reason "ResourceFilter(MEMORY_MB)" --since 2h
  cellgate decisions list --host compute7 --until 2026-11-24T22:00:00Z
  cellgate decisions list --trace 4bf92f3577b34da6a3ce929d0e0e4736
  cellgate decisions list --instance 11111111-1111-4111-8111-111111111111 -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	var req cellgatev1.ListDecisionsRequest
	f := cmd.Flags()
	f.StringVar(&req.Cell, "cell", "", "decisions that this cell keeps")
	f.StringVar(&req.InstanceUuid, "instance", "", "decisions on this instance, by uuid")
	f.StringVar(&req.ProjectId, "project", "", "decisions on requests of this project")
	f.StringVar(&req.RequestId, "request-id", "", "decisions on this request")
	f.StringVar(&req.TraceId, "trace", "", "decisions on the request of this trace, by its 32 hex digits")
	outcome := choiceFlag(cmd, "outcome", "", []string{"placed", "dry-run", "refused"}, "decisions that ended so: placed, dry-run or refused")
	f.StringVar(&req.Reason, "reason", "", "refusals of this kind (NO_VALID_HOST), or that this filter, or what it names, had a part in: ResourceFilter(MEMORY_MB), or either")
	f.StringVar(&req.Host, "host", "", "decisions that chose this host, by uuid or service host")
	f.StringVar(&req.HostCell, "host-cell", "", "decisions that chose a host in this cell")
	since := timeFlag(cmd, "since", "decisions from then on")
	until := timeFlag(cmd, "until", "decisions before then")
	limit := listFlags(cmd, "decisions")
	watchFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		req.Outcome = cellgatev1.DecisionOutcome(cellgatev1.DecisionOutcome_value[enumName(*outcome)])
		if req.Since, err = since(); err == nil {
			req.Until, err = until()
		}
		if err == nil && req.Since != nil && req.Until != nil && !req.Since.AsTime().Before(req.Until.AsTime()) {
			err = fmt.Errorf("--since: %s is not before --until, %s: no time is between them", timeText(req.Since), timeText(req.Until))
		}
		if err != nil {
			return usage(cmd, err)
		}
		return list(c, cmd, limit, "decisions", cellgatev1.NewSchedulerClient, cellgatev1.SchedulerClient.ListDecisions, &req,
			func(p *page, m *cellgatev1.ListDecisionsResponse) { showDecisions(p, m, req.Reason) })
	}
	return cmd
}

// timeFlag adds a flag for a time in RFC 3339, or for a duration before now. It reads nil when the flag
// is not given.
func timeFlag(cmd *cobra.Command, name, help string) func() (*timestamppb.Timestamp, error) {
	text := cmd.Flags().String(name, "", help+": a time (2026-11-24T22:00:00Z), or how long ago (2h)")
	return func() (*timestamppb.Timestamp, error) {
		if *text == "" {
			return nil, nil
		}
		if ago, err := time.ParseDuration(*text); err == nil && ago >= 0 {
			return timestamppb.New(time.Now().Add(-ago)), nil
		}
		at, err := time.Parse(time.RFC3339, *text)
		if err != nil {
			return nil, fmt.Errorf("--%s: %q is neither a time in RFC 3339 (2026-11-24T22:00:00Z) nor a duration (2h)", name, *text)
		}
		return timestamppb.New(at), nil
	}
}

// showDecisions shows a list of decisions that the caller selected by a reason; "" for any.
func showDecisions(p *page, m *cellgatev1.ListDecisionsResponse, reason string) {
	if len(m.GetDecisions()) == 0 {
		nothing(p, "decisions", m.GetUnavailableCells())
		return
	}
	t := p.table("DECISION", "DECIDED", "+OPERATION", "+INSTANCE", "+PROJECT", "+TOOK", "OUTCOME", "+TRACE")
	for _, d := range m.GetDecisions() {
		outcome := hostsOf(d)
		if d.GetRefusal() != "" {
			outcome = strings.TrimSpace(d.GetRefusal() + " " + mainReason(d, reason))
		}
		if d.GetDryRun() {
			outcome += " (dry run)"
		}
		at := timeText(d.GetDecidedAt())
		if at != "" && !p.wide && !p.record {
			at = d.GetDecidedAt().AsTime().Format("01-02 15:04:05")
		}
		t.row(d.GetDecisionId(), at, d.GetOperation(), andMore(d.GetInstanceUuids()), d.GetProjectId(), d.GetTook().AsDuration().Round(time.Microsecond), outcome, d.GetTraceId())
	}
	t.print()
	footer(p, "decisions", len(m.GetDecisions()), m.GetNextPageToken() != "", m.GetUnavailableCells())
}

// mainReason gives the reason that rejected the most hosts of a refused request. It prefers the reasons
// that the caller asked for. It gives "" when no cell was asked.
func mainReason(d *cellgatev1.Decision, asked string) string {
	asked = strings.TrimPrefix(asked, d.GetRefusal()+" ")
	best, most, meant := "", int32(0), false
	for _, r := range rejectsOf(d) {
		text := conditionText(r.GetFilter(), r.GetDetail())
		is := asked != "" && (asked == r.GetFilter() || asked == r.GetDetail() || asked == text)
		if is && !meant || is == meant && r.GetHosts() > most {
			best, most, meant = text, r.GetHosts(), is
		}
	}
	return best
}

// rejectsOf adds up the rejections of all cells, in the order in which they first come.
func rejectsOf(d *cellgatev1.Decision) (rejects []*cellgatev1.RejectCount) {
	for _, r := range d.GetCells() {
		for _, x := range r.GetRejects() {
			at := slices.IndexFunc(rejects, func(y *cellgatev1.RejectCount) bool {
				return y.GetFilter() == x.GetFilter() && y.GetDetail() == x.GetDetail()
			})
			if at < 0 {
				at, rejects = len(rejects), append(rejects, &cellgatev1.RejectCount{Filter: x.GetFilter(), Detail: x.GetDetail()})
			}
			rejects[at].Hosts += x.GetHosts()
		}
	}
	return rejects
}

// andMore gives the first of some names, and how many more there are.
func andMore(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}

// hostsOf names the first host of a decision, and how many more there are.
func hostsOf(d *cellgatev1.Decision) string {
	if len(d.GetDestinations()) == 0 {
		return "placed"
	}
	var names []string
	for _, x := range d.GetDestinations() {
		names = append(names, x.GetSelected().GetCell()+"/"+x.GetSelected().GetServiceHost())
	}
	return andMore(names)
}

func newDecisionsGet(c *client) *cobra.Command {
	return &cobra.Command{
		Use:     "get DECISION",
		Short:   "Show a decision: the destinations or the refusal, and what each cell answered",
		Example: "  cellgate decisions get cell1.01JAB2C3D4E5F6G7H8J9KMNPQR",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(c, cmd, cellgatev1.NewSchedulerClient, cellgatev1.SchedulerClient.GetDecision, &cellgatev1.GetDecisionRequest{DecisionId: args[0]},
				func(p *page, m *cellgatev1.GetDecisionResponse) { showDecision(p, m.GetDecision()) })
		},
	}
}

func showDecision(p *page, d *cellgatev1.Decision) {
	p.record = true
	showDecisions(p, &cellgatev1.ListDecisionsResponse{Decisions: []*cellgatev1.Decision{d}}, "")
	if d.GetRefusal() != "" {
		p.printf("\n")
		p.prose("%s: %s", d.GetRefusal(), printable(d.GetMessage()))
		showVerdicts(p, d)
		if len(d.GetCells()) > 0 {
			p.printf("\n")
			showCellReports(p, d.GetCells())
		}
		return
	}
	showVerdicts(p, d)
	showClaimsNow(p, d)
	if len(d.GetRanked()) > 0 {
		p.printf("\nthe best hosts for the first instance, as recorded:\n")
		showRanked(p, d.GetRanked(), chosenHost(d), "SCORES")
	}
	p.printf("\nas it was answered:\n")
	showDestinations(p, &cellgatev1.SelectDestinationsResponse{
		DecisionId: d.GetDecisionId(), Destinations: d.GetDestinations(), Cells: d.GetCells(), Exact: d.GetExact(), Partial: d.GetPartial(),
	})
}

// showVerdicts lists the hosts that rejected claims of a decision: before the answer, and since then as
// far as the cells still keep the claims.
func showVerdicts(p *page, d *cellgatev1.Decision) {
	t := p.table("INSTANCE", "CELL", "HOST", "REJECTED", "WHY")
	for _, r := range d.GetRejectedClaims() {
		t.row(r.GetInstanceUuid(), r.GetCell(), r.GetServiceHost(), "before the answer", r.GetReason()+": "+r.GetMessage())
	}
	for _, c := range d.GetClaims() {
		add := func(host string, v *cellgatev1.ClaimVerdict) {
			t.row(c.GetInstanceUuid(), c.GetCell(), host, timeText(v.GetAt()), v.GetReason()+": "+v.GetDetail())
		}
		for _, r := range c.GetRejections() {
			add(r.GetServiceHost(), r.GetVerdict())
		}
		if v := c.GetVerdict(); v.GetOutcome() == "REJECTED" {
			add(c.GetServiceHost(), v)
		}
	}
	t.printBelow()
}

// showClaimsNow lists where a decision's claims are when the gateway reads them.
func showClaimsNow(p *page, d *cellgatev1.Decision) {
	now := map[string]*cellgatev1.DecisionClaim{}
	for _, c := range d.GetClaims() {
		now[c.GetClaimId()] = c
	}
	t := p.table("INSTANCE", "CELL", "HOST NOW", "STATE NOW", "CLAIM")
	for _, x := range d.GetDestinations() {
		s := x.GetSelected()
		if s.GetClaimId() == "" {
			continue
		}
		host, state := "", "not known: its cell does not say"
		if c := now[s.GetClaimId()]; c != nil {
			host, state = c.GetServiceHost(), c.GetState().String()
		}
		t.row(x.GetInstanceUuid(), s.GetCell(), host, state, s.GetClaimId())
	}
	t.printBelow()
}
