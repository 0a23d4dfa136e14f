package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newSelect(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "select",
		Short: "Choose and claim hosts for instances",
		Long: `Choose one host an instance over all cells and claim it: all instances or none.
The request comes from flags, or from a JSON file in the form of
POST /v1/select_destinations. A claim is leased; confirm it to keep it.`,
		Example: `  cellgate select --vcpus 2 --memory-mb 4096 --zone az1 --alternates 2
  cellgate select --count 3 --group 5d0f1a9e-5c1c-4f3c-9d59-1f0a0c6a7b11 --policy anti-affinity
  cellgate select --operation live_migrate --instance 11111111-1111-4111-8111-111111111111 --vcpus 2
  cellgate select -f request.json --dry-run -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	var flags selectFlags
	flags.add(cmd)
	confirm := cmd.Flags().Bool("confirm", false, "confirm the claims at once, so that they stay")
	c := newClient(cmd, t)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		req, err := flags.request(t.in)
		if err != nil {
			return usage(cmd, err)
		}
		err = call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.SelectDestinationsResponse, error) {
			m, err := cellgatev1.NewSchedulerClient(conn).SelectDestinations(ctx, req)
			if err != nil || !*confirm {
				return m, err
			}
			return m, confirmAll(ctx, conn, m)
		}, showDestinations)
		if asJSON, _ := c.output(cmd); !asJSON { // call has told of a bad --output
			err = errors.Join(showRefusal(t.out, err), err)
		}
		return err
	}
	return cmd
}

// confirmAll confirms every claim of an answer and puts the new states into it.
func confirmAll(ctx context.Context, conn *grpc.ClientConn, m *cellgatev1.SelectDestinationsResponse) error {
	for _, d := range m.GetDestinations() {
		s := d.GetSelected()
		if !s.GetClaimed() {
			continue
		}
		r, err := cellgatev1.NewClaimsClient(conn).ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{
			ConsumerUuid: d.GetInstanceUuid(), ClaimId: s.GetClaimId(), Cell: s.GetCell(),
		})
		if err != nil {
			return fmt.Errorf("confirming claim %s of instance %s: %w", s.GetClaimId(), d.GetInstanceUuid(), err)
		}
		s.ClaimState, s.ClaimExpiresAt = r.GetClaim().GetState(), nil
	}
	return nil
}

func showDestinations(w io.Writer, m *cellgatev1.SelectDestinationsResponse) error {
	t := newTable(w, "INSTANCE", "CELL", "HOST", "ZONE", "WEIGHT", "STATE", "CLAIM", "ALTERNATES")
	for _, d := range m.GetDestinations() {
		s := d.GetSelected()
		state := "not claimed"
		if s.GetClaimed() {
			state = s.GetClaimState().String()
		}
		t.row(d.GetInstanceUuid(), s.GetCell(), s.GetServiceHost(), s.GetAvailabilityZone(),
			fmt.Sprintf("%.4f", s.GetWeight()), state, s.GetClaimId(), alternateNames(d))
	}
	if err := t.end(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := showCellReports(w, m.GetCells()); err != nil {
		return err
	}
	notes := fmt.Sprintf("decision %s", m.GetDecisionId())
	if !m.GetExact() {
		notes += "; the order is not exact"
	}
	if m.GetPartial() {
		notes += "; a cell that could have held the instances did not answer"
	}
	_, err := fmt.Fprintln(w, notes)
	return err
}

func alternateNames(d *cellgatev1.Destinations) string {
	var names []string
	for _, a := range d.GetAlternates() {
		names = append(names, a.GetServiceHost())
	}
	return strings.Join(names, ", ")
}

func showCellReports(w io.Writer, reports []*cellgatev1.CellReport) error {
	t := newTable(w, "CELL", "OUTCOME", "HOSTS", "PASSED", "REJECTED BY", "REASON")
	for _, r := range reports {
		t.row(r.GetCell(), r.GetOutcome(), r.GetHosts(), r.GetPassed(), rejectCounts(r.GetRejects(), len(r.GetRejects())), r.GetReason())
	}
	if err := t.end(); err != nil {
		return err
	}
	return showUnreadable(w, reports)
}

// showUnreadable names a host of those that a filter or weigher could not read, and what
// Nova raises for it; nothing when all were read.
func showUnreadable(w io.Writer, reports []*cellgatev1.CellReport) error {
	t, n := newTable(w, "CELL", "READ BY", "UNREADABLE", "ONE OF THEM", "NOVA RAISES"), 0
	for _, c := range reports {
		for _, r := range c.GetRejects() {
			if r.GetExample() != "" {
				t.row(c.GetCell(), r.GetFilter(), r.GetHosts(), r.GetExample(), raises(r))
				n++
			}
		}
		for _, r := range c.GetWarnings() {
			t.row(c.GetCell(), r.GetKey(), r.GetHosts(), r.GetExample(), raises(r))
			n++
		}
	}
	if n == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return t.end()
}

// raises is what Nova raises for an unreadable host; empty for nothing.
func raises(r interface {
	GetExceptionClass() string
	GetExceptionMessage() string
},
) string {
	if r.GetExceptionClass() == "" {
		return ""
	}
	// It may quote what somebody wrote for a terminal to read.
	return r.GetExceptionClass() + ": " + strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, r.GetExceptionMessage())
}

// rejectCounts lists at most most rejects, as the message of NO_VALID_HOST does:
// 1800 ResourceFilter(MEMORY_MB), 1200 ComputeFilter.
func rejectCounts(rejects []*cellgatev1.RejectCount, most int) string {
	var all []string
	for i, r := range rejects {
		if i == most {
			all = append(all, fmt.Sprintf("and %d more", len(rejects)-most))
			break
		}
		name := r.GetFilter()
		if r.GetDetail() != "" {
			name += "(" + r.GetDetail() + ")"
		}
		all = append(all, fmt.Sprintf("%d %s", r.GetHosts(), name))
	}
	return strings.Join(all, ", ")
}

// refusal gives the detail of a NO_VALID_HOST error; nil for any other.
func refusal(err error) *cellgatev1.NoValidHost {
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.NoValidHost {
		return nil
	}
	detail, _ := e.Detail.(*cellgatev1.NoValidHost)
	return detail
}

// showRefusal prints the counts of a NO_VALID_HOST error; nothing for others.
func showRefusal(w io.Writer, err error) error {
	detail := refusal(err)
	if detail == nil {
		return nil
	}
	if err := showCellReports(w, detail.GetCells()); err != nil {
		return err
	}
	id := metadataOf(err, "decision_id")
	if id == "" {
		return nil
	}
	_, failed := fmt.Fprintf(w, "decision %s\n", id)
	return failed
}

// metadataOf gives what the error says of a key for programs; "" for nothing.
func metadataOf(err error, key string) string {
	var e *fault.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Metadata[key]
}
