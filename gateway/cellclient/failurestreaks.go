package cellclient

import (
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// callKind is what part of its replica a call exercises.
type callKind int

const (
	// asks: the replica answers from memory, or reads its shard.
	asks callKind = iota
	// commits: the replica has to write to its shard before it answers.
	commits
	// probes: the prober's call.
	probes
)

// failureStreaks count failures in a row of writes and of probes, since successes of other
// calls must not hide them: a replica whose disk hangs answers proposals, and one that serves
// users may not answer its prober. They survive changes of the breaker's state: a kind of
// call that failed, and was not served since, is still in doubt when a probe closes the
// breaker.
type failureStreaks [probes + 1]int

// failed counts a failure and gives the length of its streak; 0 for asks, which gobreaker
// itself counts.
func (s *failureStreaks) failed(k callKind) int {
	if k == asks {
		return 0
	}
	s[k]++
	return s[k]
}

// answered ends the streak of a kind. A refused write does not end it: a replica refuses
// without its disk.
func (s *failureStreaks) answered(k callKind, refused bool) {
	if k != commits || !refused {
		s[k] = 0
	}
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
