package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newExplain(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Say which hosts a request would get and why, and what the others lack",
		Long: `Rank the hosts of all cells for a request and claim nothing. The best hosts are shown with what each
weigher adds to their weight (-o wide), the others with what they lack and the smallest change of the
request with which one of them would fit. The request comes from the flags of 'select', or from a JSON
file in the form of POST /v1/explain_destinations. --alternates is how many ranked hosts are shown.`,
		Example: `  cellgate explain --vcpus 2 --memory-mb 4096 --zone az1
  cellgate explain --vcpus 200 --trait CUSTOM_GOLD
  cellgate explain -f request.json -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	var flags selectFlags
	flags.add(cmd)
	c := newClient(cmd, t)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		req, err := flags.request(t.in)
		if err != nil {
			return usage(cmd, err)
		}
		return call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.ExplainDestinationsResponse, error) {
			return cellgatev1.NewSchedulerClient(conn).ExplainDestinations(ctx, req)
		}, showExplanation)
	}
	return cmd
}

func showExplanation(p *page, m *cellgatev1.ExplainDestinationsResponse) {
	p.printf("%d of %d hosts pass", m.GetPassed(), m.GetHosts())
	if !m.GetExact() {
		p.printf("; the order is not exact")
	}
	if m.GetPartial() {
		p.printf("; a cell that could have held the instance did not answer")
	}
	p.printf("\n")
	t := p.table("RANK", "HOST", "CELL", "ZONE", "WEIGHT", "+SCORES")
	for i, h := range m.GetRanked() {
		t.row(i+1, h.GetServiceHost(), h.GetCell(), h.GetAvailabilityZone(), fmt.Sprintf("%.4f", h.GetWeight()), scoreTexts(h.GetScores()))
	}
	t.printBelow()
	p.printf("\n")
	showCellReports(p, m.GetCells())
	showMisses(p, m.GetConditions(), m.GetNearest(), m.GetSmallestChange(), m.GetSmallestOperatorChange())
}

// scoreTexts has the weighers that tell hosts apart: RAMWeigher 0.75 (raw 12288 x 1).
func scoreTexts(scores []*cellgatev1.WeigherScore) string {
	var texts []string
	for _, s := range scores {
		if s.GetScore() != 0 {
			texts = append(texts, fmt.Sprintf("%s %.4g (raw %.6g x %.4g)", s.GetWeigher(), s.GetScore(), s.GetRaw(), s.GetMultiplier()))
		}
	}
	return strings.Join(texts, ", ")
}

// shownNearest is how many near misses are shown.
const shownNearest = 5

// showMisses says what the hosts that do not pass lack, and what would change that; nothing when that is not known.
func showMisses(p *page, conditions []*cellgatev1.Condition, nearest []*cellgatev1.NearMiss, change, operatorChange string) {
	t := p.table("CONDITION", "HOSTS WITHOUT", "FOR THIS ALONE")
	for _, c := range conditions {
		t.row(conditionText(c.GetFilter(), c.GetDetail()), c.GetHosts(), c.GetAlone())
	}
	t.printBelow()
	t = p.table("NEAREST HOST", "CELL", "LACKS", "ALIKE")
	for _, m := range nearest[:min(len(nearest), shownNearest)] {
		var lacks []string
		for _, x := range m.GetMisses() {
			text := conditionText(x.GetFilter(), x.GetDetail())
			if x.GetAsked() > 0 {
				text = fmt.Sprintf("%s: %d of %d", x.GetDetail(), x.GetMost(), x.GetAsked())
			}
			lacks = append(lacks, text)
		}
		t.row(m.GetServiceHost(), m.GetCell(), strings.Join(lacks, ", "), m.GetAlike())
	}
	t.printBelow()
	if change != "" {
		p.printf("It would fit if you %s.\n", change)
	}
	if operatorChange != "" {
		p.printf("Operators: %s.\n", operatorChange)
	}
}

func conditionText(filter, detail string) string {
	if detail == "" {
		return filter
	}
	return filter + "(" + detail + ")"
}
