package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newDecisions(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "decisions",
		Short:   "List and show what was decided, and why",
		Example: "  cellgate decisions list --refused",
		Args:    usageArgs(knownCommand),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usage(cmd, errors.New("say what to do: list or get"))
		},
		SuggestionsMinimumDistance: 2,
	}
	c := newClient(cmd, t)
	cmd.AddCommand(newDecisionsList(c), newDecisionsGet(c))
	return cmd
}

func newDecisionsList(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List decisions, the newest first",
		Example: `  cellgate decisions list --refused --limit 20
  cellgate decisions list --instance 11111111-1111-4111-8111-111111111111 -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	var req cellgatev1.ListDecisionsRequest
	f := cmd.Flags()
	f.StringVar(&req.Cell, "cell", "", "decisions that this cell keeps")
	f.StringVar(&req.InstanceUuid, "instance", "", "decisions on this instance, by uuid")
	f.StringVar(&req.ProjectId, "project", "", "decisions on requests of this project")
	f.StringVar(&req.RequestId, "request-id", "", "decisions on this request")
	f.BoolVar(&req.Refused, "refused", false, "refusals only")
	limit := limitFlag(cmd, "decisions")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return list(c, cmd, limit, "decisions", cellgatev1.NewSchedulerClient, cellgatev1.SchedulerClient.ListDecisions, &req, showDecisions)
	}
	return cmd
}

func showDecisions(w io.Writer, m *cellgatev1.ListDecisionsResponse) error {
	if len(m.GetDecisions()) == 0 {
		return nothing(w, "decisions", m.GetUnavailableCells())
	}
	t := newTable(w, "DECIDED", "OPERATION", "+INSTANCES", "OUTCOME", "+TOOK", "DECISION")
	for _, d := range m.GetDecisions() {
		outcome := d.GetRefusal()
		if outcome == "" {
			outcome = hostsOf(d)
		}
		if d.GetDryRun() {
			outcome += " (dry run)"
		}
		t.row(d.GetDecidedAt().AsTime().Format(time.RFC3339), d.GetOperation(), len(d.GetInstanceUuids()), outcome,
			d.GetTook().AsDuration().Round(time.Microsecond), d.GetDecisionId())
	}
	if err := t.end(); err != nil {
		return err
	}
	return footer(w, "decisions", len(m.GetDecisions()), m.GetNextPageToken() != "", m.GetUnavailableCells())
}

// hostsOf names the first host of a decision, and how many more there are.
func hostsOf(d *cellgatev1.Decision) string {
	if len(d.GetDestinations()) == 0 {
		return "placed"
	}
	s := d.GetDestinations()[0].GetSelected()
	text := s.GetCell() + "/" + s.GetServiceHost()
	if n := len(d.GetDestinations()); n > 1 {
		text += fmt.Sprintf(" and %d more", n-1)
	}
	return text
}

func newDecisionsGet(c *client) *cobra.Command {
	return &cobra.Command{
		Use:     "get DECISION",
		Short:   "Show a decision: the destinations or the refusal, and what each cell said",
		Example: "  cellgate decisions get cell1.01JAB2C3D4E5F6G7H8J9KMNPQR",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(c, cmd, cellgatev1.NewSchedulerClient, cellgatev1.SchedulerClient.GetDecision, &cellgatev1.GetDecisionRequest{DecisionId: args[0]},
				func(w io.Writer, m *cellgatev1.GetDecisionResponse) error { return showDecision(w, m.GetDecision()) })
		},
	}
}

func showDecision(w io.Writer, d *cellgatev1.Decision) error {
	if err := showDecisions(w, &cellgatev1.ListDecisionsResponse{Decisions: []*cellgatev1.Decision{d}}); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if d.GetRefusal() == "" {
		if err := showVerdicts(w, d); err != nil {
			return err
		}
		if err := showClaimsNow(w, d); err != nil {
			return err
		}
		return showDestinations(w, &cellgatev1.SelectDestinationsResponse{
			DecisionId: d.GetDecisionId(), Destinations: d.GetDestinations(), Cells: d.GetCells(), Exact: d.GetExact(), Partial: d.GetPartial(),
		})
	}
	if _, err := fmt.Fprintf(w, "%s: %s\n", d.GetRefusal(), d.GetMessage()); err != nil {
		return err
	}
	if err := showVerdicts(w, d); err != nil || len(d.GetCells()) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return showCellReports(w, d.GetCells())
}

// showVerdicts lists the hosts that rejected claims of a decision: those before the
// answer, and those that did so since, as far as the claims are still kept.
func showVerdicts(w io.Writer, d *cellgatev1.Decision) error {
	t := newTable(w, "INSTANCE", "CELL", "HOST", "REJECTED", "WHY")
	n := len(d.GetRejectedClaims())
	for _, r := range d.GetRejectedClaims() {
		t.row(r.GetInstanceUuid(), r.GetCell(), r.GetServiceHost(), "before the answer", r.GetReason()+": "+r.GetMessage())
	}
	for _, c := range d.GetClaims() {
		said := func(host string, v *cellgatev1.ClaimVerdict) {
			n++
			t.row(c.GetInstanceUuid(), c.GetCell(), host, v.GetAt().AsTime().Format(time.RFC3339), v.GetReason()+": "+v.GetDetail())
		}
		for _, r := range c.GetRejections() {
			said(r.GetServiceHost(), r.GetVerdict())
		}
		if v := c.GetVerdict(); v.GetOutcome() == "REJECTED" {
			said(c.GetServiceHost(), v)
		}
	}
	if n == 0 {
		return nil
	}
	if err := t.end(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// showClaimsNow lists where a decision's claims are when it is read; after it comes what
// was answered.
func showClaimsNow(w io.Writer, d *cellgatev1.Decision) error {
	now := map[string]*cellgatev1.DecisionClaim{}
	for _, c := range d.GetClaims() {
		now[c.GetClaimId()] = c
	}
	t := newTable(w, "INSTANCE", "CELL", "HOST NOW", "STATE NOW", "CLAIM")
	n := 0
	for _, x := range d.GetDestinations() {
		s := x.GetSelected()
		if s.GetClaimId() == "" {
			continue
		}
		n++
		host, state := "", "not known: its cell does not say"
		if c := now[s.GetClaimId()]; c != nil {
			host, state = c.GetServiceHost(), c.GetState().String()
		}
		t.row(x.GetInstanceUuid(), s.GetCell(), host, state, s.GetClaimId())
	}
	if n == 0 {
		return nil
	}
	if err := t.end(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nas it was answered:")
	return err
}
