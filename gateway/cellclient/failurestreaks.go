package cellclient

import (
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// callKind says what a call shows of its replica.
type callKind int

const (
	// asks: the replica answers from what it holds in memory, or reads.
	asks callKind = iota
	// commits: the replica has to write to its shard before it answers.
	commits
	// probes: the prober's call.
	probes
)

// failureStreaks count failures in a row of the calls that others must not make up for:
// a replica whose disk hangs answers proposals, and one that serves users may not
// answer its prober. They outlive the breaker's states: what was not served since
// it failed is still in doubt when a probe closes the breaker.
type failureStreaks [probes + 1]int

// failed counts a failure and gives the length of its streak; 0 of calls that
// gobreaker's own count is enough for.
func (s *failureStreaks) failed(k callKind) int {
	if k == asks {
		return 0
	}
	s[k]++
	return s[k]
}

// answered ends the streak of a kind. A refused write says nothing: a replica
// refuses without its disk.
func (s *failureStreaks) answered(k callKind, refused bool) {
	if k != commits || !refused {
		s[k] = 0
	}
}

// kindOf is the kind of a user's call. Decisions are kept without waiting for the
// disk.
func kindOf(req any) callKind {
	switch req.(type) {
	case *cellv1.ClaimBatchRequest, *cellv1.PutFactsRequest, *cellv1.SetAdminStateRequest, *cellv1.RemoveHostRequest,
		*cellv1.WritePlacementRequest, *cellv1.ChangeNameRequest:
		return commits
	}
	return asks
}
