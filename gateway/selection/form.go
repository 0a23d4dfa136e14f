package selection

import (
	"context"
	"slices"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// Form is what a kind of instance asks for, translated for package schedule.
type Form struct {
	Request *schedule.Request
	Rules   *schedule.Rules
	// Ignored are the paths of fields that do not matter to placement.
	Ignored []string
}

// Translate translates the form of a request. Errors name its fields.
func (svc *Service) Translate(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*Form, error) {
	s, err := svc.newSelection(ctx, req)
	if err != nil {
		return nil, err
	}
	return &Form{Request: s.request, Rules: s.rules, Ignored: s.ignored}, nil
}

// Placement serializes the form for cells.
func (f *Form) Placement() []byte { return placementBytes(f.Request, f.Rules, f.Request.Moving) }

// Refusal gives the answer of a selection that finds no host in a cell, from the cell's last proposal: as a message
// and as text.
func Refusal(cell string, p *schedule.Proposal) (*cellgatev1.NoValidHost, string) {
	r := reportOf(p)
	r.Cell = cell
	d := &cellgatev1.NoValidHost{Hosts: r.GetHosts(), Rejects: slices.Clone(r.GetRejects()), Cells: []*cellgatev1.CellReport{r}}
	sortRejects(d)
	why := joinMisses([]cellMisses{{cell, p.Hosts, p.NearMisses}})
	why.changes = requestChanges(why.found)
	why.addTo(d)
	return d, noHostMessage(d, "")
}
