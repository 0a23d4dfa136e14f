package wire

import (
	"regexp"
	"strings"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// What decisions are found by (shard.Decision.Terms): one of these and a value.
const (
	byRequest  = "request:"
	byInstance = "instance:"
	byHost     = "host:"
	byProject  = "project:"
	byReason   = "reason:"
	byOutcome  = "outcome:"
	byTrace    = "trace:"
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

// OutcomeOf is how a decision ended.
func OutcomeOf(d *cellgatev1.Decision) cellgatev1.DecisionOutcome {
	switch {
	case d.GetRefusal() != "":
		return cellgatev1.DecisionOutcome_REFUSED
	case d.GetDryRun():
		return cellgatev1.DecisionOutcome_DRY_RUN
	}
	return cellgatev1.DecisionOutcome_PLACED
}

// DecisionTerms is what a decision is found by.
func DecisionTerms(d *cellgatev1.Decision) []string {
	t := terms{have: map[string]bool{}}
	t.add(byRequest, d.GetRequestId())
	t.add(byProject, d.GetProjectId())
	for _, id := range d.GetInstanceUuids() {
		t.add(byInstance, strings.ToLower(id))
	}
	for _, x := range d.GetDestinations() {
		t.add(byHost, x.GetSelected().GetComputeNodeUuid())
		t.add(byHost, x.GetSelected().GetServiceHost())
		t.add(byHostCell, x.GetSelected().GetCell())
	}
	t.add(byTrace, strings.ToLower(d.GetTraceId()))
	t.add(byOutcome, OutcomeOf(d).String())
	if d.GetRefusal() != "" {
		t.add(byReason, d.GetRefusal())
		for _, r := range d.GetNoValidHost().GetRejects() {
			t.add(byReason, r.GetFilter())
			t.add(byReason, r.GetDetail())
		}
	}
	return t.list
}

// shownReason is a reason as lists show it: NO_VALID_HOST TraitFilter(HW_CPU_X86_AVX2), where the kind and what the filter
// names may be missing.
var shownReason = regexp.MustCompile(`^(?:([A-Z_]+) )?([A-Za-z0-9_]+)(?:\((.*)\))?$`)

// reasonParts are the terms of a reason; one for what is not as lists show it.
func reasonParts(reason string) []string {
	if m := shownReason.FindStringSubmatch(reason); m != nil {
		return m[1:]
	}
	return []string{reason}
}

// DecisionTermsAsked is what decisions are asked for by, what fewest have first; instance is req's, in its one form.
func DecisionTermsAsked(req *cellv1.ListDecisionsRequest, instance string) []string {
	t := terms{have: map[string]bool{}}
	t.add(byRequest, req.GetRequestId())
	t.add(byTrace, strings.ToLower(req.GetTraceId()))
	t.add(byInstance, instance)
	t.add(byHost, req.GetHost())
	t.add(byProject, req.GetProjectId())
	for _, part := range reasonParts(req.GetReason()) {
		t.add(byReason, part)
	}
	if o := req.GetOutcome(); o != cellgatev1.DecisionOutcome_DECISION_OUTCOME_UNSPECIFIED {
		t.add(byOutcome, o.String())
	}
	t.add(byHostCell, req.GetHostCell())
	return t.list
}
