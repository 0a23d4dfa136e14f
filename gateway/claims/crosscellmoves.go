package claims

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/cellclient"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// maxMoves bounds the moves looked up in one pass. If there are more, each pass begins at a random one.
	maxMoves = 256
	// maxSettled bounds the moves remembered as settled, maxFinished those that this gateway finished.
	maxSettled, maxFinished = 65_536, 256
)

// unfinishedMoves are instances that a host of another cell reports while the claim in the
// cell that they left is still confirmed. No shard sees both claims. Confirming the new claim
// again would end the old one (docs/adr/0005, 0006); the gateway does that in its caller's
// place, unless the old host still reports the instance. The zero value is ready.
type unfinishedMoves struct {
	mu sync.Mutex
	// settled are the new claims of moves whose source is no longer live.
	settled map[string]struct{}
	// finished are the moves that this gateway finished, the oldest first.
	finished []*cellgatev1.Finding
	// kept is the reason why the source of a move was not released, by the source's claim id.
	kept map[string]string
}

// findMovesEvery is how often the gateway searches for unfinished moves between cells.
const findMovesEvery = time.Minute

// watchMoves finishes moves until ctx ends.
func (svc *Service) watchMoves(ctx context.Context) {
	tick := time.NewTicker(findMovesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		seen := svc.askFindings(ctx)
		found, _ := svc.moves.find(ctx, svc, seen)
		repairs := map[string]bool{}
		for _, s := range seen {
			repairs[s.cell.Name()] = s.repairs && s.shown.GetError() == ""
		}
		for _, f := range found {
			if ctx.Err() != nil {
				return
			}
			if repairs[f.GetCell()] && repairs[f.GetOtherCell()] {
				svc.finishMove(ctx, f)
			}
		}
	}
}

// arrival is the new claim of a move, and the cells that the instance left and came to.
type arrival struct {
	*cellv1.MovedIn
	from, to *cellclient.Cell
}

// unsettled gives the moves whose source may be live.
func (m *unfinishedMoves) unsettled(ctx context.Context, svc *Service, seen []*cellFindings) (moves []arrival) {
	for _, s := range seen {
		for _, in := range s.movedIn {
			switch from := svc.Cells.Named(in.GetFromCell()); {
			case m.isSettled(in.GetClaimId()):
			case from == nil:
				svc.Log.DebugContext(ctx, "the source of a move is in a cell that is not configured", "cell", in.GetFromCell(), "claim", in.GetFromClaimId())
			default:
				moves = append(moves, arrival{in, from, s.cell})
			}
		}
	}
	return moves
}

// someMoves gives at most maxMoves of the moves, from a random one on: moves that stay unfinished must not keep the
// others waiting.
func someMoves(moves []arrival) []arrival {
	if len(moves) <= maxMoves {
		return moves
	}
	at := rand.N(len(moves))
	return slices.Concat(moves[at:], moves[:at])[:maxMoves]
}

// find gives the unfinished moves, and those that this gateway finished recently.
func (m *unfinishedMoves) find(ctx context.Context, svc *Service, seen []*cellFindings) (found, finished []*cellgatev1.Finding) {
	moves := m.unsettled(ctx, svc, seen)
	for _, in := range someMoves(moves) {
		if ctx.Err() != nil {
			break
		}
		source, err := in.from.FindClaim(ctx, svc.Cells.ClaimBudget, in.GetFromClaimId())
		switch {
		case err != nil:
			svc.Log.DebugContext(ctx, "the source claim of a move cannot be read", "cell", in.GetFromCell(), "claim", in.GetFromClaimId(), "error", err)
		case !live(source):
			m.settle(in.GetClaimId())
		case source.GetState() != cellgatev1.ClaimState_CONFIRMED || source.GetConsumerUuid() != in.GetConsumerUuid():
			// A pending source ends with its lease. A source that was transferred is its new consumer's to end.
		default:
			found = append(found, &cellgatev1.Finding{
				Kind: cellgatev1.Finding_UNFINISHED_MOVE, Cell: in.GetFromCell(), HostUuid: source.GetHostUuid(), ServiceHost: source.GetServiceHost(),
				ClaimId: source.GetClaimId(), ConsumerUuid: source.GetConsumerUuid(),
				OtherCell: in.to.Name(), OtherHostUuid: in.GetHostUuid(), OtherClaimId: in.GetClaimId(), Since: in.GetSince(),
				Detail: fmt.Sprintf("host %s of cell %s reports the instance, with claim %s; what it left is charged still", in.GetServiceHost(), in.to.Name(), in.GetClaimId()),
			})
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := map[string]string{}
	for _, in := range moves {
		if why := m.kept[in.GetFromClaimId()]; why != "" {
			kept[in.GetFromClaimId()] = why
		}
	}
	m.kept = kept
	for _, f := range found {
		f.Repair = kept[f.GetClaimId()]
	}
	for _, f := range m.finished {
		finished = append(finished, proto.CloneOf(f))
	}
	return found, finished
}

func live(c *cellgatev1.Claim) bool {
	return c.GetState() == cellgatev1.ClaimState_PENDING || c.GetState() == cellgatev1.ClaimState_CONFIRMED
}

// finishMove releases the source of a move, if the new claim is still confirmed and the old
// host does not report the instance.
func (svc *Service) finishMove(ctx context.Context, f *cellgatev1.Finding) {
	attrs := []any{"instance", f.GetConsumerUuid(), "claim", f.GetClaimId(), "cell", f.GetCell(), "new_claim", f.GetOtherClaimId(), "new_cell", f.GetOtherCell()}
	from, to := svc.Cells.Named(f.GetCell()), svc.Cells.Named(f.GetOtherCell())
	// The source is read first: if it changes after the new claim was found confirmed, UnchangedSince refuses the
	// release.
	var arrived *cellgatev1.Claim
	left, err := from.FindClaim(ctx, svc.Cells.ClaimBudget, f.GetClaimId())
	if err == nil {
		arrived, err = to.FindClaim(ctx, svc.Cells.ClaimBudget, f.GetOtherClaimId())
	}
	confirmed := cellgatev1.ClaimState_CONFIRMED
	if err == nil && (left.GetState() != confirmed || left.GetConsumerUuid() != f.GetConsumerUuid() || arrived.GetState() != confirmed || arrived.GetConsumerUuid() != f.GetConsumerUuid()) {
		return // the move was given up, or finished, just now
	}
	var released *cellv1.ClaimOutcome
	if err == nil {
		ref := &cellv1.ClaimRef{ClaimId: f.GetClaimId(), ConsumerUuid: f.GetConsumerUuid(), UnlessReported: true, UnchangedSince: left.GetUpdatedAt()}
		released, err = from.OperateOne(ctx, svc.Cells.ClaimBudget, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: ref}})
	}
	svc.Telemetry.MoveFinished(err)
	if err != nil {
		if svc.moves.keep(f.GetClaimId(), "not released: "+cellclient.ReasonOf(err)) {
			svc.Log.WarnContext(ctx, "a move between cells could not be finished", append(attrs, "error", err)...)
		}
		return
	}
	svc.unpinReleased(ctx, released.GetClaim())
	svc.Log.WarnContext(ctx, "audit: a claim was released: its instance has moved to another cell", attrs...)
	f.Repair, f.RepairedAt = "released, as confirming the new claim again does", timestamppb.New(svc.Now())
	svc.moves.mu.Lock()
	defer svc.moves.mu.Unlock()
	if svc.moves.finished = append(svc.moves.finished, f); len(svc.moves.finished) > maxFinished {
		svc.moves.finished = svc.moves.finished[1:]
	}
}

// keep records why a source was not released, and reports whether the reason is new.
func (m *unfinishedMoves) keep(claim, why string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept[claim] == why {
		return false
	}
	m.kept[claim] = why
	return true
}

func (m *unfinishedMoves) isSettled(claim string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.settled[claim]
	return ok
}

func (m *unfinishedMoves) settle(claim string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.settled == nil || len(m.settled) >= maxSettled {
		m.settled = map[string]struct{}{}
	}
	m.settled[claim] = struct{}{}
}
