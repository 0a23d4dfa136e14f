package claims

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"cellgate/gateway/cellclient"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// loggedClaims notes the attribute "claim" of each log line.
type loggedClaims map[string]bool

func (l loggedClaims) Enabled(context.Context, slog.Level) bool { return true }
func (l loggedClaims) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l loggedClaims) WithGroup(string) slog.Handler            { return l }

func (l loggedClaims) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "claim" {
			l[a.Value.String()] = true
		}
		return true
	})
	return nil
}

// The source cell answers nothing, so all moves stay unfinished. One pass does not look up all of them, but several do.
// What is known of a move stays known in passes that do not look it up.
func TestFind_MoreMovesThanAPass_EachIsLookedUp(t *testing.T) {
	cells, err := cellclient.New([]cellclient.CellConfig{{Name: "one"}, {Name: "two"}}, cellclient.Config{ClaimBudget: time.Minute}, cellclient.Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer cells.Close()
	asked := loggedClaims{}
	svc := New(Deps{Cells: cells, Log: slog.New(asked), Now: time.Now})
	const moves = maxMoves + 50
	two := &cellFindings{cell: cells.Named("two")}
	for n := range moves {
		two.movedIn = append(two.movedIn, &cellv1.MovedIn{ClaimId: fmt.Sprint("new", n), FromCell: "one", FromClaimId: fmt.Sprint("old", n)})
	}
	for pass := range 100 {
		svc.moves.find(t.Context(), svc, []*cellFindings{two})
		if pass == 0 {
			if len(asked) != maxMoves {
				t.Errorf("the first pass looks up %d moves, want %d", len(asked), maxMoves)
			}
			for n := range moves {
				svc.moves.keep(fmt.Sprint("old", n), "a reason")
			}
		}
	}
	if len(asked) != moves || svc.moves.keep("old0", "a reason") || svc.moves.keep(fmt.Sprint("old", moves-1), "a reason") {
		t.Errorf("%d of %d moves were looked up, the reasons of %d are known", len(asked), moves, len(svc.moves.kept))
	}
}
