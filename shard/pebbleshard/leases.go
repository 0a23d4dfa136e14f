package pebbleshard

import (
	"container/heap"
	"time"

	"cellgate/shard"
)

// lease is the end of a claim that was PENDING when the lease was pushed.
type lease struct {
	end     time.Time
	claimID string
}

// leases has the earliest end first. A claim that is confirmed or ended stays until its lease would have ended.
type leases struct{ queue leaseQueue }

func (l *leases) push(n lease) { heap.Push(&l.queue, n) }

// due lists at most limit claims that are still PENDING and whose leases are over, the longest overdue first. It
// drops leases of claims that are no longer PENDING.
func (l *leases) due(now time.Time, claims map[string]*shard.Claim, limit int) []shard.ClaimRef {
	var refs []shard.ClaimRef
	var kept []lease
	for len(l.queue) > 0 && len(refs) < limit && !now.Before(l.queue[0].end) {
		n := heap.Pop(&l.queue).(lease)
		c := claims[n.claimID]
		if c == nil || c.State != shard.Pending || !c.ExpiresAt.Equal(n.end) {
			continue
		}
		kept = append(kept, n)
		refs = append(refs, shard.ClaimRef{ClaimID: c.ClaimID, ConsumerUUID: c.ConsumerUUID})
	}
	for _, n := range kept {
		l.push(n)
	}
	return refs
}

type leaseQueue []lease

func (q leaseQueue) Len() int { return len(q) }

func (q leaseQueue) Less(i, j int) bool {
	if q[i].end.Equal(q[j].end) {
		return q[i].claimID < q[j].claimID
	}
	return q[i].end.Before(q[j].end)
}

func (q leaseQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *leaseQueue) Push(x any) { *q = append(*q, x.(lease)) }

func (q *leaseQueue) Pop() any {
	old := *q
	n := old[len(old)-1]
	old[len(old)-1] = lease{}
	*q = old[:len(old)-1]
	return n
}
