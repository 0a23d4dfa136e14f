package cellclient

import (
	"sync"

	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// retryBudget bounds how much retries multiply a cell's calls when its replicas fail: one
// retry for every retryCost calls, and a burst of retryMost/retryCost. Safe for concurrent
// use; the zero value is full.
type retryBudget struct {
	mu sync.Mutex
	// spent is the cost of retries that later calls have not yet earned back, 0 to retryMost.
	spent int
}

const (
	retryCost = 10
	retryMost = 100
)

// earn must be called once for every call.
func (b *retryBudget) earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent = max(0, b.spent-1)
}

// spend reports whether one retry may be sent, and charges it.
func (b *retryBudget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spent+retryCost > retryMost {
		return false
	}
	b.spent += retryCost
	return true
}

// kindOf is the kind of a user's call. Writes of decisions are asks, since they do not wait
// for the disk.
func kindOf(req any) callKind {
	switch req.(type) {
	case *cellv1.ClaimBatchRequest, *cellv1.PutFactsRequest, *cellv1.SetAdminStateRequest, *cellv1.RemoveHostRequest,
		*cellv1.WritePlacementRequest, *cellv1.ChangeNameRequest:
		return commits
	}
	return asks
}

// repeatable reports whether a call may be sent to another replica if its outcome is unknown. A claim may not: it is
// released and planned again under another id. A change of an admin state or of facts may not: the first copy would
// overtake the second (updateIfCurrent), and a caller that named a generation would get that refusal. Calls that are
// not listed here may not either.
func repeatable(req any) bool {
	if _, ok := req.(*cellv1.ImportHostsRequest); ok {
		return true // a version makes importing a state idempotent
	}
	b, ok := req.(*cellv1.ClaimBatchRequest)
	if !ok {
		return reads(req)
	}
	for _, op := range b.GetOps() {
		switch op.GetOp().(type) {
		case *cellv1.ClaimOp_Confirm, *cellv1.ClaimOp_Release, *cellv1.ClaimOp_Unpin, *cellv1.ClaimOp_TakeOver:
		default:
			return false
		}
	}
	return true
}

// reads reports whether a call changes nothing in its cell.
func reads(req any) bool {
	switch req := req.(type) {
	case *cellv1.ReportLegacyRequest:
		return req.GetLook()
	case *cellv1.GetSummaryRequest, *cellv1.ListClaimsRequest, *cellv1.ListHostsRequest,
		*cellv1.GetDecisionRequest, *cellv1.ListDecisionsRequest, *cellv1.FindUnclaimedRequest,
		*cellv1.ListProvidersRequest, *cellv1.ListConsumersRequest, *cellv1.SumUsagesRequest, *cellv1.ListNamesRequest, *cellv1.FindCandidatesRequest:
		return true
	}
	return false
}
