package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// The claim's own cell hangs, while the consumer has another pending claim in another cell.
func TestConfirmWhileItsOwnCellHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		id := testUUID(0x1, 1)
		one := w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
		back := w.cells[0].hang()
		w.choose(to(ask(1, 1), "cell2"))
		err := w.confirm(one, id)
		if k := fault.KindOf(err); k != fault.CellUnavailable {
			t.Errorf("a claim whose cell does not answer: %v", err)
		}
		back()
	})
}

// Of two claims GetClaim returns the later one. If both are confirmed, it logs a warning.
func TestTwoClaimsOfAConsumerAreReported(t *testing.T) {
	for _, state := range []cellgatev1.ClaimState{cellgatev1.ClaimState_PENDING, cellgatev1.ClaimState_CONFIRMED} {
		for _, swap := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var logged safeBuffer
				w := startLogged(t, twoCells(), nil, slog.New(slog.NewTextHandler(&logged, nil)))
				first, second := w.cells[0], w.cells[1]
				if swap {
					first, second = second, first
				}
				id := testUUID(0x1, 1)
				first.made("first", id, first.hosts[0].UUID.String())
				time.Sleep(5 * time.Second)
				second.made("later", id, second.hosts[0].UUID.String())
				if state == cellgatev1.ClaimState_CONFIRMED {
					first.confirm("first", id)
					second.confirm("later", id)
				}
				got, err := w.claims.GetClaim(context.Background(), &cellgatev1.GetClaimRequest{ConsumerUuid: id})
				if err != nil {
					t.Fatal(err)
				}
				if got.GetClaim().GetClaimId() != "later" {
					t.Errorf("%s swap %v: GetClaim gives %s, the later one stands", state, swap, got.GetClaim().GetClaimId())
				}
				if state == cellgatev1.ClaimState_CONFIRMED && !strings.Contains(logged.String(), "level=WARN") {
					t.Errorf("GetClaim saw two confirmed claims and logged %q", logged.String())
				}
			})
		}
	}
}

type lockedBuf struct {
	b  *bytes.Buffer
	mu *sync.Mutex
}

func (l *lockedBuf) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// The consumer has a confirmed claim in a cell that was disabled since; every cell answers.
func TestI2_ConfirmedInACellDisabledSince(t *testing.T) {
	w := start(t, twoCells(), func(c *Config) { c.Cells[1].Disabled = true })
	s := w.choose(ask(1, 1)).GetDestinations()[0].GetSelected()
	w.cells[1].made("old", testUUID(0x1, 1), testUUID(0xa, 3))
	w.cells[1].confirm("old", testUUID(0x1, 1))
	if k := fault.KindOf(w.confirm(s, testUUID(0x1, 1))); k != fault.AlreadyExists {
		t.Errorf("the confirm gave %q: two CONFIRMED claims, all cells healthy", k)
	}
}

// Two spellings of one uuid make the same request.
func TestFingerprintIgnoresTheSpellingOfGroupsAndAggregates(t *testing.T) {
	for name, set := range map[string]func(*cellgatev1.RequestSpec, bool){
		"group": func(r *cellgatev1.RequestSpec, up bool) {
			r.InstanceGroup = &cellgatev1.InstanceGroup{Uuid: spellOut("abcdef01-0000-4000-8000-00000000000e", up), Policy: "soft-affinity"}
		},
		"aggregate": func(r *cellgatev1.RequestSpec, up bool) {
			r.ForbiddenAggregates = []string{spellOut("abcdef01-0000-4000-8000-00000000000d", up)}
		},
	} {
		w := start(t, twoCells(), nil)
		req := ask(1, 1)
		req.RequestId = "r"
		set(req.GetRequestSpec(), true)
		if _, err := w.scheduler.SelectDestinations(context.Background(), req); err != nil {
			t.Errorf("%s upper: %v", name, err)
			continue
		}
		set(req.GetRequestSpec(), false)
		if _, err := w.scheduler.SelectDestinations(context.Background(), req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func spellOut(s string, up bool) string {
	if up {
		return strings.ToUpper(s)
	}
	return s
}
