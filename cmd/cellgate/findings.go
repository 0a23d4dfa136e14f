package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newFindings(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "findings",
		Short: "Show where shards, tables and hosts do not agree",
		Long: `Show what the cells' reconcilers found: claims whose instance is nowhere, instances
without a claim, hosts on which more is used than there is, and rows that differ.
docs/explanation/reconcile.md says of each kind what it means, what is put right by itself, and what
to do.`,
		Example: `  cellgate findings --cell cell1
  cellgate findings --kind orphaned_claim -o json
  cellgate findings --repaired`,
		Args: usageArgs(cobra.NoArgs),
	}
	c := newClient(cmd, t)
	watchFlag(cmd)
	var req cellgatev1.ListFindingsRequest
	cmd.Flags().StringVar(&req.Cell, "cell", "", "those of this cell")
	kind := choiceFlag(cmd, "kind", "", findingKinds(), "those of this kind")
	cmd.Flags().BoolVar(&req.Repaired, "repaired", false, "those too that were put right lately")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		req.Kind = cellgatev1.Finding_Kind(cellgatev1.Finding_Kind_value[enumName(*kind)])
		return ask(c, cmd, cellgatev1.NewCellsClient, cellgatev1.CellsClient.ListFindings, &req, showFindings)
	}
	return cmd
}

// findingKinds gives the kinds as --kind takes them.
func findingKinds() []string {
	var all []string
	for n := int32(1); cellgatev1.Finding_Kind_name[n] != ""; n++ {
		all = append(all, strings.ToLower(cellgatev1.Finding_Kind_name[n]))
	}
	return all
}

// widthOfWhat is how many bytes of a finding's text the table shows: with " …", as wide as a uuid.
const widthOfWhat = 34

func showFindings(p *page, m *cellgatev1.ListFindingsResponse) {
	t := p.table("KIND", "CELL", "HOST", "INSTANCE, OR WHAT", "+CLAIM", "+WHAT", "SINCE", "+DONE ABOUT IT")
	for _, f := range m.GetFindings() {
		what := f.GetDetail()
		if f.GetResourceClass() != "" {
			what = f.GetResourceClass() + ": " + what
		}
		since, repair := timeText(f.GetSince()), f.GetRepair()
		if f.GetRepairedAt() != nil {
			repair = timeText(f.GetRepairedAt()) + " " + repair
		}
		if since != "" && !p.wide {
			since = f.GetSince().AsTime().Format("01-02 15:04")
		}
		t.row(strings.ToLower(f.GetKind().String()), f.GetCell(), f.GetServiceHost(), cmp.Or(f.GetConsumerUuid(), cut(what, widthOfWhat)), f.GetClaimId(), what, since, repair)
	}
	if len(m.GetFindings()) > 0 {
		t.print()
	} else {
		p.printf("no findings\n")
	}
	for _, c := range m.GetCells() {
		p.printf("%s\n", reconciledText(c))
	}
}

// reconciledText says when and how far reconciliation compared a cell.
func reconciledText(c *cellgatev1.ReconciledCell) string {
	var parts []string
	if c.GetLookedAt() == nil {
		parts = append(parts, "has not been looked at yet")
	} else {
		parts = append(parts, fmt.Sprintf("%d of %d hosts had reports to compare, %s", c.GetHostsCompared(), c.GetHosts(), timeText(c.GetLookedAt())))
	}
	if c.GetCut() {
		parts = append(parts, "there are more findings")
	}
	if c.GetError() != "" {
		parts = append(parts, "no answer of "+c.GetError())
	}
	return c.GetCell() + ": " + strings.Join(parts, "; ")
}

// byKind counts the unrepaired findings of each kind, for a sentence; "" for none.
func byKind(all []*cellgatev1.Finding) string {
	count := map[string]int{}
	for _, f := range all {
		if f.GetRepairedAt() == nil {
			count[strings.ToLower(f.GetKind().String())]++
		}
	}
	var parts []string
	for kind, n := range count {
		parts = append(parts, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
