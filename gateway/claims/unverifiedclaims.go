package claims

import (
	"context"
	"sync"

	"cellgate/gateway/cellclient"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// maxUnseen bounds the instances that are kept to be searched for later, over all cells.
	maxUnseen = 65536
	// unseenBatch is how many instances one call asks a cell about: one page has their claims.
	unseenBatch = 50
)

// unverifiedClaims are claims that were confirmed while a cell did not answer, by that cell:
// it may have a confirmed claim of the same instance. Once the cell answers again, it is
// asked, so that a second confirmed claim is found without waiting for a reader. They are
// kept in memory and bounded; "cellgate claims doubled" finds what a gateway forgets. Safe
// for concurrent use.
type unverifiedClaims struct {
	mu     sync.Mutex
	byCell map[*cellclient.Cell]map[string]*cellgatev1.Claim
	n      int
	// looking has the cells that some goroutine asks now.
	looking map[*cellclient.Cell]bool
	// full is set if a claim was left out since full was last reported.
	full bool
}

// add records a claim for a cell; if there is no room, it leaves the claim out and sets full.
func (u *unverifiedClaims) add(c *cellclient.Cell, claim *cellgatev1.Claim) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n >= maxUnseen {
		u.full = true
		return
	}
	if u.byCell == nil {
		u.byCell, u.looking = map[*cellclient.Cell]map[string]*cellgatev1.Claim{}, map[*cellclient.Cell]bool{}
	}
	if u.byCell[c] == nil {
		u.byCell[c] = map[string]*cellgatev1.Claim{}
	}
	if _, there := u.byCell[c][claim.GetConsumerUuid()]; !there {
		u.n++
	}
	u.byCell[c][claim.GetConsumerUuid()] = claim
}

// removeSome removes and returns at most n of a cell's claims.
func (u *unverifiedClaims) removeSome(c *cellclient.Cell, n int) []*cellgatev1.Claim {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []*cellgatev1.Claim
	for consumer, claim := range u.byCell[c] {
		if len(out) == n {
			break
		}
		out = append(out, claim)
		delete(u.byCell[c], consumer)
		u.n--
	}
	return out
}

// startLookup reports whether a cell has claims to ask about and no goroutine asks yet; the
// caller must then call finishLookup. full is true if claims were left out.
func (u *unverifiedClaims) startLookup(c *cellclient.Cell) (begun, full bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.byCell[c]) == 0 || u.looking[c] {
		return false, false
	}
	u.looking[c] = true
	full, u.full = u.full, false
	return true, full
}

func (u *unverifiedClaims) finishLookup(c *cellclient.Cell) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.looking, c)
}

// VerifyConfirmed asks a cell that answers again about the instances whose claims were
// confirmed elsewhere without it. It works in the background, until ctx ends.
func (svc *Service) VerifyConfirmed(ctx context.Context, c *cellclient.Cell) {
	begun, full := svc.unseen.startLookup(c)
	if !begun {
		return
	}
	if full {
		svc.Log.Warn("a cell that answers again is not asked about all claims that were confirmed without it; \"cellgate claims doubled\" finds instances with two claims", "cell", c.Name())
	}
	svc.Cells.Tasks.Go(func() {
		defer svc.unseen.finishLookup(c)
		for batch := svc.unseen.removeSome(c, unseenBatch); len(batch) > 0; batch = svc.unseen.removeSome(c, unseenBatch) {
			if !svc.verifyBatch(ctx, c, batch) {
				return
			}
		}
	})
}

// verifyBatch asks a cell for confirmed claims of the instances of others. If the cell does
// not answer, it returns false, and the instances are kept for the cell's next answer.
func (svc *Service) verifyBatch(ctx context.Context, c *cellclient.Cell, others []*cellgatev1.Claim) bool {
	ctx, cancel := context.WithTimeout(ctx, svc.Cells.ClaimBudget)
	defer cancel()
	byConsumer := map[string]*cellgatev1.Claim{}
	var consumers []string
	for _, o := range others {
		byConsumer[o.GetConsumerUuid()] = o
		consumers = append(consumers, o.GetConsumerUuid())
	}
	found, err := svc.liveClaims(consumers...)(ctx, c)
	if err != nil {
		for _, o := range others {
			svc.unseen.add(c, o)
		}
		return false
	}
	for _, here := range found {
		other := byConsumer[here.GetConsumerUuid()]
		if !ConfirmedApart(here, other) || here.GetClaimId() == other.GetClaimId() {
			continue
		}
		// The other claim may have been released since.
		in := svc.Cells.Named(other.GetCell())
		if in == nil {
			continue
		}
		live, err := svc.liveClaims(other.GetConsumerUuid())(ctx, in)
		switch {
		case err != nil:
			svc.unseen.add(in, here)
		case hasClaim(live, other.GetClaimId()):
			svc.LogDuplicate(ctx, here, other)
		}
	}
	return true
}
