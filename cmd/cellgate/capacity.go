package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// capacityFlags are a capacity question's flags beside its shape.
type capacityFlags struct {
	shape  selectFlags
	most   int32
	drain  []string
	add    map[string]int
	ratios map[string]string
}

func newCapacity(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Say how many more instances fit, also if hosts or ratios were others",
		Long: `Place instances on a copy of the cells' tables until the next one finds no host, and claim nothing. The
instance comes from the flags of 'select'. Several kinds, mixes and changes of aggregates come from a JSON
file in the form of POST /v1/estimate_capacity.`,
		Example: `  cellgate capacity --vcpus 2 --memory-mb 4096
  cellgate capacity --vcpus 2 --ratio VCPU=8
  cellgate capacity --vcpus 2 --drain cell1-r01-h001 --add cell1-r01-h002=10
  cellgate capacity --vcpus 2 --filter-expression "host.free.VCPU > 8" -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	var flags capacityFlags
	flags.shape.add(cmd)
	for _, name := range []string{"instance", "count", "operation", "request-id", "alternates", "ttl", "dry-run"} {
		_ = cmd.Flags().MarkHidden(name) // they make sense for a selection only
	}
	cmd.Flags().Int32Var(&flags.most, "max", 0, "instances counted in each cell, at most (0 for 1,000,000)")
	cmd.Flags().StringSliceVar(&flags.drain, "drain", nil, "assume that this host takes nothing new, by name or uuid; again for each")
	cmd.Flags().StringToIntVar(&flags.add, "add", nil, "assume more hosts like one, by name or uuid: HOST=COUNT")
	cmd.Flags().StringToStringVar(&flags.ratios, "ratio", nil, "assume another allocation ratio of all hosts: CLASS=RATIO")
	for _, name := range []string{"max", "drain", "add", "ratio"} {
		cmd.MarkFlagsMutuallyExclusive("file", name)
	}
	c := newClient(cmd, t)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		req, err := flags.request(t.in)
		if err != nil {
			return usage(cmd, err)
		}
		return ask(c, cmd, cellgatev1.NewCapacityClient, cellgatev1.CapacityClient.EstimateCapacity, req, showCapacity)
	}
	return cmd
}

func (f *capacityFlags) request(stdin io.Reader) (*cellgatev1.EstimateCapacityRequest, error) {
	if f.shape.file != "" {
		req := &cellgatev1.EstimateCapacityRequest{}
		return req, readRequest(f.shape.file, stdin, req)
	}
	selected, err := f.shape.request(stdin)
	if err != nil {
		return nil, err
	}
	req := &cellgatev1.EstimateCapacityRequest{
		MaxInstances: f.most, Changes: &cellgatev1.HypotheticalChanges{DrainedHosts: f.drain},
		Shapes: []*cellgatev1.CapacityShape{{Name: "instances", Spec: &cellgatev1.CapacityShape_RequestSpec{RequestSpec: selected.GetRequestSpec()}}},
	}
	for _, host := range slices.Sorted(maps.Keys(f.add)) {
		n := f.add[host]
		if int(int32(n)) != n {
			return nil, fmt.Errorf("--add: %s=%d is too much", host, n)
		}
		req.Changes.AddedHosts = append(req.Changes.AddedHosts, &cellgatev1.AddedHosts{LikeHostUuid: host, Count: int32(n)})
	}
	for _, class := range slices.Sorted(maps.Keys(f.ratios)) {
		ratio, err := strconv.ParseFloat(f.ratios[class], 64)
		if err != nil {
			return nil, fmt.Errorf("--ratio %s=%s: is no number", class, f.ratios[class])
		}
		req.Changes.Ratios = append(req.Changes.Ratios, &cellgatev1.RatioChange{ResourceClass: class, AllocationRatio: ratio})
	}
	return req, nil
}

// sentence ends a text with a full stop, unless it ends with one or with a question mark.
func sentence(text string) string {
	if strings.HasSuffix(text, "?") || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

func showCapacity(p *page, m *cellgatev1.EstimateCapacityResponse) {
	t := p.table("SHAPE", "FIT", "END", "CELLS")
	for _, s := range m.GetShapes() {
		var cells []string
		for _, c := range s.GetCells() {
			cells = append(cells, fmt.Sprintf("%s %d (%d hosts)", c.GetCell(), c.GetInstances(), c.GetHostsUsed()))
		}
		t.row(s.GetName(), s.GetInstances(), s.GetEnd(), strings.Join(cells, ", "))
	}
	t.print()
	for _, s := range m.GetShapes() {
		p.prose("%s: %s", printable(s.GetName()), printable(sentence(s.GetMessage())))
	}
	for _, c := range m.GetCells() {
		if c.GetOutcome() != cellgatev1.CellOutcome_SEARCHED {
			p.prose("%s is not counted: %s.", c.GetCell(), printable(c.GetReason()))
		}
	}
	if !m.GetExact() && !m.GetPartial() {
		p.printf("The order of a mix is not exact.\n")
	}
}
