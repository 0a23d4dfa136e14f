package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
  cellgate select --vcpus 2 --aggregate az1 --filter-expression "host.free.VCPU > 8" --dry-run
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
		if form := *c.form; form != "json" && form != "yaml" && form != "name" {
			err = errors.Join(show(t.out, func(p *page) {
				if p.wide = form == "wide"; !p.wide {
					p.width = pageWidth
				}
				showRefusal(p, err)
			}), err)
		}
		return err
	}
	return cmd
}

// confirmAll confirms every claim of an answer, and sets the new states in it.
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

func showDestinations(p *page, m *cellgatev1.SelectDestinationsResponse) {
	t := p.table("INSTANCE", "CLAIM", "HOST", "STATE", "+CELL", "+ZONE", "+WEIGHT", "+ALTERNATES")
	for _, d := range m.GetDestinations() {
		s := d.GetSelected()
		state := "not claimed"
		if s.GetClaimed() {
			state = s.GetClaimState().String()
		}
		t.row(d.GetInstanceUuid(), s.GetClaimId(), s.GetServiceHost(), state, s.GetCell(), s.GetAvailabilityZone(), fmt.Sprintf("%.4f", s.GetWeight()), joined(d.GetAlternates(), (*cellgatev1.Selection).GetServiceHost, ", "))
	}
	t.print()
	for _, d := range m.GetDestinations() {
		if len(d.GetAlternates()) > 0 && !p.wide {
			p.printf("alternates of %s: %s\n", d.GetInstanceUuid(), joined(d.GetAlternates(), (*cellgatev1.Selection).GetServiceHost, ", "))
		}
	}
	p.printf("\n")
	showCellReports(p, m.GetCells())
	p.printf("decision %s%s\n", m.GetDecisionId(), exactness(m.GetExact(), m.GetPartial()))
}

// shownRejects bounds how many reasons of rejections a row shows, unless the table is wide.
const shownRejects = 3

func showCellReports(p *page, reports []*cellgatev1.CellReport) {
	t := p.table("CELL", "OUTCOME", "HOSTS", "PASSED", "REJECTED BY")
	for _, r := range reports {
		most := shownRejects
		if p.wide {
			most = len(r.GetRejects())
		}
		t.row(r.GetCell(), r.GetOutcome(), r.GetHosts(), r.GetPassed(), rejectCounts(r.GetRejects(), most))
	}
	t.print()
	for _, r := range reports {
		if r.GetReason() != "" {
			p.prose("%s: %s", r.GetCell(), printable(r.GetReason()))
		}
	}
	showUnreadable(p, reports)
}

// showUnreadable names one host that a filter or weigher could not read, and the exception that Nova
// raises for it. It shows nothing when they could read all hosts.
func showUnreadable(p *page, reports []*cellgatev1.CellReport) {
	t := p.table("CELL", "READ BY", "UNREADABLE", "ONE OF THEM", "NOVA RAISES")
	for _, c := range reports {
		for _, r := range c.GetRejects() {
			if r.GetExample() != "" {
				t.row(c.GetCell(), r.GetFilter(), r.GetHosts(), r.GetExample(), raises(r))
			}
		}
		for _, r := range c.GetWarnings() {
			t.row(c.GetCell(), r.GetKey(), r.GetHosts(), r.GetExample(), raises(r))
		}
	}
	t.printBelow()
}

// raises gives the exception that Nova raises for an unreadable host; empty for none.
func raises(r interface {
	GetExceptionClass() string
	GetExceptionMessage() string
},
) string {
	if r.GetExceptionClass() == "" {
		return ""
	}
	return r.GetExceptionClass() + ": " + r.GetExceptionMessage()
}

// rejectCounts writes at most most rejects, as the message of NO_VALID_HOST does: 1800
// ResourceFilter(MEMORY_MB), 1200 ComputeFilter.
func rejectCounts(rejects []*cellgatev1.RejectCount, most int) string {
	var all []string
	for i, r := range rejects {
		if i == most {
			all = append(all, fmt.Sprintf("and %d more", len(rejects)-most))
			break
		}
		all = append(all, fmt.Sprintf("%d %s", r.GetHosts(), conditionText(r.GetFilter(), r.GetDetail())))
	}
	return strings.Join(all, ", ")
}

// refusal gives the details of a NO_VALID_HOST error; nil for any other error.
func refusal(err error) *cellgatev1.NoValidHost {
	var e *fault.Error
	if !errors.As(err, &e) {
		return nil
	}
	detail, _ := e.Detail.(*cellgatev1.NoValidHost)
	return detail
}

// showRefusal prints the counts of a NO_VALID_HOST error, and the decision of any error that has one.
func showRefusal(p *page, err error) {
	if detail := refusal(err); detail != nil {
		showCellReports(p, detail.GetCells())
		showMisses(p, detail)
	}
	if id := metadataOf(err, "decision_id"); id != "" {
		p.printf("decision %s\n", id)
	}
}

// metadataOf gives the error's metadata of a key; "" for none.
func metadataOf(err error, key string) string {
	var e *fault.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Metadata[key]
}
