package shard

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"cellgate/internal/fault"
)

// Decisions keeps what was decided on requests, for people to read. They are no
// part of lanes and the journal and decide nothing: a crash may lose the last
// ones, but leaves none by halves.
type Decisions interface {
	// PutDecisions keeps decisions; one whose ID is there already is replaced. It
	// keeps all or none; a bad one is an InvalidRequest fault that names the field.
	// When there are too many then (TooMany), it drops the oldest until keep are left;
	// those that others put into the same shard may count only once they trim.
	PutDecisions(ctx context.Context, ds []Decision, keep int) error
	// FindDecisions lists decisions by descending ID, with their bodies.
	FindDecisions(ctx context.Context, q DecisionQuery) (DecisionPage, error)
	// TrimDecisions drops the oldest, by ID, while they are of before a time or
	// there are more than so many. What a context that ends leaves is in order. A store
	// may bound their bytes too, and drops the oldest for that whenever it likes.
	TrimDecisions(ctx context.Context, before time.Time, keep int) error
}

// Decision is what was decided on one request. IDs of one cell ascend with time.
type Decision struct {
	ID string
	// At is its maker's time.
	At            time.Time
	InstanceUUIDs []string
	ProjectID     string
	RequestID     string
	// Refusal is the kind of the error it was answered with; empty for none.
	Refusal string
	// Body is the decision whole, at most MaxDecisionBody bytes; the store does not
	// read it.
	Body []byte
}

const (
	// MaxDecisionBody bounds a decision's body: an answer is at most 4 MiB, and what
	// stands beside it is less than that again.
	MaxDecisionBody = 8 << 20
	// MaxDecisionPage bounds the bodies of a page.
	MaxDecisionPage = 4 << 20
)

// DecisionQuery narrows FindDecisions; zero fields do not. By ID, instance, project
// or request nothing else is read; of several the store reads those of one.
type DecisionQuery struct {
	ID           string
	InstanceUUID string
	ProjectID    string
	RequestID    string
	// Refused lists refusals only.
	Refused bool
	// Since leaves out those of before.
	Since time.Time
	// Before is the ID before which to go on.
	Before string
	// Limit is the page's size; 0 means 100.
	Limit int
}

// DecisionPage is a page of FindDecisions. It ends early, with More, before its
// bodies pass MaxDecisionPage bytes, but has one decision at least.
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
	for i, id := range d.InstanceUUIDs {
		if !isID(id) {
			return "instance_uuids[" + strconv.Itoa(i) + "]: " + idRule
		}
	}
	return textProblem("project_id, request_id or refusal", d.ProjectID, d.RequestID, d.Refusal)
}

// Matches reports whether a decision is one that the query asks for, paging aside.
func (q *DecisionQuery) Matches(d *Decision) bool {
	named := q.InstanceUUID == ""
	for _, id := range d.InstanceUUIDs {
		named = named || id == q.InstanceUUID
	}
	return named &&
		(q.ID == "" || d.ID == q.ID) && (q.Before == "" || d.ID < q.Before) &&
		(q.ProjectID == "" || d.ProjectID == q.ProjectID) &&
		(q.RequestID == "" || d.RequestID == q.RequestID) &&
		(!q.Refused || d.Refusal != "") && !d.At.Before(q.Since)
}

// TooMany reports whether what there is passes a bound by more than a twentieth: a
// write makes room then, and not each time that one comes and one goes.
func TooMany[N int | int64](there, bound N) bool { return there-bound > bound/20 }
