package wire

import (
	"regexp"
	"strings"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// The kinds of terms by which decisions are found (shard.Decision.Terms). A term is a kind and a value.
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

// terms are distinct terms, in the order in which they were added.
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

// OutcomeOf returns the outcome of a decision.
func OutcomeOf(d *cellgatev1.Decision) cellgatev1.DecisionOutcome {
	switch {
	case d.GetRefusal() != "":
		return cellgatev1.DecisionOutcome_REFUSED
	case d.GetDryRun():
		return cellgatev1.DecisionOutcome_DRY_RUN
	}
	return cellgatev1.DecisionOutcome_PLACED
}

// DecisionTerms returns the terms by which a decision is found.
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

// shownReason matches a reason as lists show it: NO_VALID_HOST TraitFilter(HW_CPU_X86_AVX2). The kind
// and the part in parentheses are optional.
var shownReason = regexp.MustCompile(`^(?:([A-Z_]+) )?([A-Za-z0-9_]+)(?:\((.*)\))?$`)

// reasonParts returns the terms of a reason; a single one if the text is not in the form of lists.
func reasonParts(reason string) []string {
	if m := shownReason.FindStringSubmatch(reason); m != nil {
		return m[1:]
	}
	return []string{reason}
}

// DecisionTermsAsked returns the terms of a list request, the rarest first; instance is the request's
// in canonical form.
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
