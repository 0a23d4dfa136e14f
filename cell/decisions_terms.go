package cell

import (
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// What decisions are found by (shard.Decision.Terms): one of these and a value.
const (
	byRequest  = "request:"
	byInstance = "instance:"
	byHost     = "host:"
	byProject  = "project:"
	byReason   = "reason:"
	byRefused  = "refused"
	byHostCell = "cell:"
)

// terms are different terms, in the order in which they were added.
type terms struct {
	list []string
	have map[string]bool
}

func (t *terms) add(kind, value string) {
	if term := kind + value; value != "" && !t.have[term] {
		t.have[term] = true
		t.list = append(t.list, term)
	}
}

// termsOf is what a decision on instances is found by.
func termsOf(d *cellgatev1.Decision, instances []schedule.ID) []string {
	t := terms{have: map[string]bool{}}
	t.add(byRequest, d.GetRequestId())
	t.add(byProject, d.GetProjectId())
	for _, id := range wire.IDTexts(instances) {
		t.add(byInstance, id)
	}
	for _, x := range d.GetDestinations() {
		t.add(byHost, x.GetSelected().GetComputeNodeUuid())
		t.add(byHost, x.GetSelected().GetServiceHost())
		t.add(byHostCell, x.GetSelected().GetCell())
	}
	if d.GetRefusal() != "" {
		t.list = append(t.list, byRefused)
		t.add(byReason, d.GetRefusal())
		for _, r := range d.GetNoValidHost().GetRejects() {
			t.add(byReason, r.GetFilter())
			t.add(byReason, r.GetDetail())
		}
	}
	return t.list
}

// termsAsked is what decisions are asked for by, what fewest have first.
func termsAsked(req *cellv1.ListDecisionsRequest, r *reader) []string {
	t := terms{have: map[string]bool{}}
	t.add(byRequest, req.GetRequestId())
	if req.GetInstanceUuid() != "" {
		t.add(byInstance, r.UUID("instance_uuid", req.GetInstanceUuid()))
	}
	t.add(byHost, req.GetHost())
	t.add(byProject, req.GetProjectId())
	t.add(byReason, req.GetReason())
	if req.GetRefused() {
		t.list = append(t.list, byRefused)
	}
	t.add(byHostCell, req.GetHostCell())
	return t.list
}
