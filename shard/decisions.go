package shard

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cellgate/internal/fault"
)

// Decisions keeps decisions on requests for people to read. They are not part of lanes and the journal, and no rule
// reads them. A crash may lose the last ones, but leaves none half written.
type Decisions interface {
	// PutDecisions keeps decisions, all or none. A decision replaces one with the same ID. An invalid decision is an
	// InvalidRequest fault that names the field.
	PutDecisions(ctx context.Context, ds []Decision) error
	// FindDecisions lists decisions by descending ID, with their bodies.
	FindDecisions(ctx context.Context, q DecisionQuery) (DecisionPage, error)
	// TrimDecisions drops the oldest, by ID, while they are older than a time or there are more than keep. If ctx
	// ends, the oldest are dropped and the rest stay. A store may also bound their bytes, and drops the oldest beyond
	// that.
	TrimDecisions(ctx context.Context, before time.Time, keep int) error
}

// Decision is the record of the answer to one request. IDs of one cell ascend with time.
type Decision struct {
	ID string
	// At is the time of the process that made it, not store time.
	At time.Time
	// Terms are what FindDecisions finds it by; its maker chooses them. Each is listed once.
	Terms []string
	// Body is the whole decision, at most MaxDecisionBody bytes; the store does not read it.
	Body []byte
}

const (
	// MaxDecisionBody bounds a decision's body: an answer is at most 4 MiB, and the rest of a decision is smaller.
	MaxDecisionBody = 8 << 20
	// MaxDecisionPage bounds the sum of the bodies of a page.
	MaxDecisionPage = 4 << 20
)

// DecisionQuery narrows FindDecisions; zero fields do not.
type DecisionQuery struct {
	ID string
	// Terms: the decision must have all of them. The store reads every decision that has the first term, so the
	// rarest belongs first.
	Terms []string
	// IDs are at least From and below Before. No others are read.
	From, Before string
	// Limit is the page's size; 0 means 100.
	Limit int
}

// DecisionPage is a page of FindDecisions. It ends early, with More, before its bodies pass MaxDecisionPage bytes,
// but has at least one decision.
type DecisionPage struct {
	Decisions []Decision
	More      bool
}

// CheckDecisions gives the error of the first decision that no store can keep.
func CheckDecisions(ds []Decision) error {
	for i := range ds {
		if r := ds[i].problem(); r != "" {
			return fault.New(fault.InvalidRequest, "decisions[%d].%s", i, r)
		}
	}
	return nil
}

func (d *Decision) problem() string {
	switch {
	case !isID(d.ID):
		return "id: " + idRule
	case d.At.UnixNano() <= 0:
		return "at: must be after 1970"
	case len(d.Body) > MaxDecisionBody:
		return fmt.Sprintf("body: is %d bytes, must be at most %d", len(d.Body), MaxDecisionBody)
	}
	if slices.Contains(d.Terms, "") {
		return "terms: must not be empty"
	}
	return textProblem("terms", d.Terms...)
}

// Matches reports whether a decision is one that the query asks for, paging aside.
func (q *DecisionQuery) Matches(d *Decision) bool {
	return (q.ID == "" || d.ID == q.ID) && d.ID >= q.From && (q.Before == "" || d.ID < q.Before) &&
		!slices.ContainsFunc(q.Terms, func(term string) bool { return !slices.Contains(d.Terms, term) })
}
