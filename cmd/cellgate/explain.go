package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newExplain(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Say which hosts a request would get and why, and what the others lack",
		Long: `Rank the hosts of all cells for a request and claim nothing. The best hosts are shown with what each
weigher adds to their weight (-o wide), the others with what they lack and the smallest changes of the
request with which it would fit. The request comes from the flags of 'select', or from a JSON
file in the form of POST /v1/explain_destinations. --alternates is how many ranked hosts are shown.

With --decision it explains a past decision from its record instead: the hosts and weights of that
moment. It ranks nothing anew.`,
		Example: `  cellgate explain --vcpus 2 --memory-mb 4096 --zone az1
  cellgate explain --vcpus 200 --trait CUSTOM_GOLD
  cellgate explain --vcpus 2 --weigh-expression "host.free.VCPU" --weigh-multiplier 10 -o wide
  cellgate explain -f request.json -o json
  cellgate explain --decision cell1.01JAB2C3D4E5F6G7H8J9KMNPQR`,
		Args: usageArgs(cobra.NoArgs),
	}
	var flags selectFlags
	flags.add(cmd)
	decision := cmd.Flags().String("decision", "", "id of a decision to explain from its record")
	c := newClient(cmd, t)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *decision != "" {
			return explainDecision(c, cmd, *decision)
		}
		req, err := flags.request(t.in)
		if err != nil {
			return usage(cmd, err)
		}
		return ask(c, cmd, cellgatev1.NewSchedulerClient, cellgatev1.SchedulerClient.ExplainDestinations, req, showExplanation)
	}
	return cmd
}

func showExplanation(p *page, m *cellgatev1.ExplainDestinationsResponse) {
	p.printf("%d of %d hosts pass%s\n", m.GetPassed(), m.GetHosts(), exactness(m.GetExact(), m.GetPartial()))
	showFunnel(p, m.GetHosts(), m.GetRejects())
	showRanked(p, m.GetRanked(), "", "+SCORES")
	p.printf("\n")
	showCellReports(p, m.GetCells())
	showSources(p, m.GetCells())
	showMisses(p, m)
	if m.GetRefusal() != "" {
		p.prose("All instances together: %s", printable(m.GetRefusal()))
	}
	for _, text := range m.GetUnknownValues() {
		p.prose("%s", printable(text))
	}
}

// exactness says what limits an answer.
func exactness(exact, partial bool) string {
	switch {
	case partial:
		return "; not over all hosts: a cell that could have held the instances did not answer"
	case !exact:
		return "; the order is not exact"
	}
	return ""
}

// showFunnel shows how many hosts each filter left.
func showFunnel(p *page, hosts int32, rejects []*cellgatev1.RejectCount) {
	t := p.table("FILTER", "REJECTED", "LEFT")
	left := hosts
	t.row("all hosts", "", left)
	for _, r := range rejects {
		left -= r.GetHosts()
		t.row(conditionText(r.GetFilter(), r.GetDetail()), r.GetHosts(), left)
	}
	t.printBelow()
}

// showSources shows where the hosts of each cell come from, and which version of its table the cell
// examined.
func showSources(p *page, reports []*cellgatev1.CellReport) {
	t := p.table("CELL", "SOURCE", "TABLE VERSION")
	for _, r := range reports {
		if r.GetTableVersion() != "" {
			t.row(r.GetCell(), r.GetSource(), r.GetTableVersion())
		}
	}
	t.printBelow()
}

// showRanked lists ranked hosts. It marks the host of uuid chosen, and those that share a weight.
// scores heads the column of scores.
func showRanked(p *page, ranked []*cellgatev1.RankedHost, chosen, scores string) {
	t := p.table("RANK", "HOST", "CELL", "ZONE", "WEIGHT", scores)
	for i, h := range ranked {
		rank := fmt.Sprint(i + 1)
		if i > 0 && h.GetWeight() == ranked[i-1].GetWeight() || i+1 < len(ranked) && h.GetWeight() == ranked[i+1].GetWeight() {
			rank += " tied"
		}
		if h.GetHostUuid() == chosen {
			rank += " chosen"
		}
		t.row(rank, h.GetServiceHost(), h.GetCell(), h.GetAvailabilityZone(), fmt.Sprintf("%.4f", h.GetWeight()), scoreTexts(h.GetScores()))
	}
	t.printBelow()
}

// explainDecision shows why a past decision came out as it did, from the record stored with it.
func explainDecision(c *client, cmd *cobra.Command, id string) error {
	var clash error
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "decision" {
			clash = fmt.Errorf("--decision explains a record: it cannot be given with --%s", f.Name)
		}
	})
	if clash != nil {
		return usage(cmd, clash)
	}
	return ask(c, cmd, cellgatev1.NewSchedulerClient, cellgatev1.SchedulerClient.GetDecision, &cellgatev1.GetDecisionRequest{DecisionId: id},
		func(p *page, m *cellgatev1.GetDecisionResponse) { showDecisionReasons(p, m.GetDecision()) })
}

// showDecisionReasons shows a decision's ranking, its funnel and what hosts lacked, all from its
// record.
func showDecisionReasons(p *page, d *cellgatev1.Decision) {
	p.prose("From the record of decision %s of %s: hosts may have changed since.", d.GetDecisionId(), timeText(d.GetDecidedAt()))
	if d.GetRefusal() != "" {
		p.prose("%s: %s", d.GetRefusal(), printable(d.GetMessage()))
	}
	hosts, passed := int32(0), int32(0)
	for _, r := range d.GetCells() {
		hosts, passed = hosts+r.GetHosts(), passed+r.GetPassed()
	}
	order := ""
	if d.GetRefusal() == "" { // a refusal has no order
		order = exactness(d.GetExact(), d.GetPartial())
	}
	p.printf("%d of %d hosts passed%s\n", passed, hosts, order)
	showFunnel(p, hosts, rejectsOf(d))
	showRanked(p, d.GetRanked(), chosenHost(d), "SCORES")
	if len(d.GetRanked()) == 0 && d.GetRefusal() == "" {
		p.printf("\nIts record has no weights: an earlier call of the same request placed the first instance.\n")
	}
	if len(d.GetCells()) > 0 {
		p.printf("\n")
		showCellReports(p, d.GetCells())
		showSources(p, d.GetCells())
	}
	n := d.GetNoValidHost()
	showMisses(p, n)
}

// chosenHost gives the uuid of the host of a decision's first instance.
func chosenHost(d *cellgatev1.Decision) string {
	if len(d.GetDestinations()) == 0 {
		return ""
	}
	return d.GetDestinations()[0].GetSelected().GetComputeNodeUuid()
}

// scoreTexts writes the weighers whose score is not 0: RAMWeigher 0.75 (raw 12288 x 1).
func scoreTexts(scores []*cellgatev1.WeigherScore) string {
	var texts []string
	for _, s := range scores {
		if s.GetScore() != 0 {
			texts = append(texts, fmt.Sprintf("%s %.4g (raw %.10g x %.4g)", s.GetWeigher(), s.GetScore(), s.GetRaw(), s.GetMultiplier()))
		}
	}
	return strings.Join(texts, ", ")
}

// misses are what hosts lack for a request, in a refusal or an explanation.
type misses interface {
	GetConditions() []*cellgatev1.Condition
	GetNearest() []*cellgatev1.NearMiss
	GetChanges() []*cellgatev1.RequestChange
	GetSmallestOperatorChange() string
	GetUnexaminedCells() []string
}

// shownNearest is how many near misses the page shows.
const shownNearest = 5

// showMisses shows what the rejected hosts lack, and what would change that. It shows nothing when that
// is not known.
func showMisses(p *page, why misses) {
	t := p.table("CONDITION", "HOSTS WITHOUT", "FOR THIS ALONE")
	for _, c := range why.GetConditions() {
		t.row(conditionText(c.GetFilter(), c.GetDetail()), c.GetHosts(), c.GetAlone())
	}
	t.printBelow()
	t = p.table("NEAREST HOST", "CELL", "ZONE", "LACKS", "ALIKE")
	for _, m := range why.GetNearest()[:min(len(why.GetNearest()), shownNearest)] {
		var lacks []string
		for _, x := range m.GetMisses() {
			text := conditionText(x.GetFilter(), x.GetDetail())
			if x.GetAsked() > 0 {
				text = fmt.Sprintf("%s: %d of %d", x.GetDetail(), x.GetMost(), x.GetAsked())
				if bound := x.GetBound(); bound != "" && bound != "free" {
					text += fmt.Sprintf(" (%s %d)", bound, x.GetBoundAt())
				}
			}
			lacks = append(lacks, text)
		}
		t.row(m.GetServiceHost(), m.GetCell(), m.GetAvailabilityZone(), strings.Join(lacks, ", "), m.GetAlike())
	}
	t.printBelow()
	switch changes := why.GetChanges(); len(changes) {
	case 0:
	case 1:
		p.prose("It would fit if you %s.", printable(changes[0].GetText()))
	default:
		p.printf("It would fit if you do one of these, the smallest change first:\n")
		for _, c := range changes {
			p.item(printable(c.GetText()))
		}
	}
	if change := why.GetSmallestOperatorChange(); change != "" {
		p.prose("Operators: %s.", printable(change))
	}
	if cells := why.GetUnexaminedCells(); len(cells) > 0 {
		p.prose("There may be a smaller change: %s had too much to do to look what hosts lack.", strings.Join(cells, ", "))
	}
}

func conditionText(filter, detail string) string {
	if detail == "" {
		return filter
	}
	return filter + "(" + detail + ")"
}
