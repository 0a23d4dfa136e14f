package standin

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// life is what truly becomes of an instance, in times; zero: not yet.
type life struct {
	claim *cellv1.NewClaim
	host  int
	// mine: this gateway chose it.
	mine bool
	// The claim is committed; the row of its host has the instance; the importer has told
	// the cell of it, so that it is not awaited any more; the claim ended before it ran.
	committed, shown, imported, ended time.Time
	// known: the stand-in was told of it. inRow: the rows that it has show it.
	known, inRow bool
}

// history is a world whose instances live, and a cell whose replicas may be behind.
type history struct {
	*world
	lives []*life
	// The cell's last answer, and when it was asked.
	answer []*cellv1.AwaitedClaim
	listed map[string]bool
	asked  time.Time
}

// behind is how far a replica may be behind.
const behind = 2 * time.Second

func (h *history) choose() {
	n := len(h.lives)
	l := &life{host: h.rng.IntN(len(h.rows)), mine: h.rng.IntN(3) > 0, committed: h.at}
	l.claim = newClaim(n, l.host)
	h.lives = append(h.lives, l)
	if l.mine {
		h.Chose(l.claim, h.at.Add(time.Hour))
		l.known = true
	}
}

// pick gives a life for which ok holds; nil when there is none.
func (h *history) pick(ok func(*life) bool) *life {
	for range 5 {
		if len(h.lives) == 0 {
			return nil
		}
		if l := h.lives[h.rng.IntN(len(h.lives))]; l.ended.IsZero() && ok(l) {
			return l
		}
	}
	return nil
}

func (h *history) show() {
	if l := h.pick(func(l *life) bool { return l.shown.IsZero() }); l != nil {
		l.shown = h.at
		r := h.change(l.host)
		a := l.claim.GetAllocations()
		r.VCPUsUsed += int64(a[0].GetAmount())
		r.FreeRAMMB -= int64(a[1].GetAmount())
	}
}

func (h *history) imports() {
	if l := h.pick(func(l *life) bool { return !l.shown.IsZero() && l.imported.IsZero() }); l != nil {
		l.imported = h.at
	}
}

func (h *history) end() {
	if l := h.pick(func(l *life) bool { return l.shown.IsZero() && l.mine }); l != nil {
		l.ended = h.at
		h.Ended(l.claim.GetClaimId())
	}
}

// poll asks a replica of the cell, which answers from a moment of before or from now.
func (h *history) poll(most time.Duration) {
	h.asked, h.answer, h.listed = h.at, nil, map[string]bool{}
	at := h.at.Add(-time.Duration(h.rng.Int64N(int64(most) + 1)))
	for _, l := range h.lives {
		if !l.committed.After(at) && (l.imported.IsZero() || l.imported.After(at)) && (l.ended.IsZero() || l.ended.After(at)) {
			h.answer = append(h.answer, awaitedOf(l.claim))
			h.listed[l.claim.GetClaimId()] = true
		}
	}
}

// refresh reads the rows, after the last answer.
func (h *history) refresh() {
	h.Update(h.snapshot(), h.at, h.answer, h.asked)
	for _, l := range h.lives {
		l.inRow = !l.shown.IsZero()
		l.known = l.known || l.inRow || h.listed[l.claim.GetClaimId()]
	}
}

// check demands that every instance that was heard of counts at least once, and that
// the table has what rows and claims have, added up naively.
func (h *history) check(step string) {
	h.Helper()
	want := make([]int64, len(h.rows))
	for i, l := range h.lives {
		_, beside := h.known.claims[l.claim.GetClaimId()]
		size := int64(l.claim.GetAllocations()[0].GetAmount())
		if l.inRow {
			want[l.host] += size
		}
		if beside {
			want[l.host] += size
		}
		if l.known && l.ended.IsZero() && !beside && !l.inRow {
			h.Fatalf("%s: instance %d counts zero times: %+v", step, i, l)
		}
	}
	if h.Standin.rows == nil {
		return
	}
	for n := range want {
		if got := h.used(n, vcpu); got != want[n] {
			h.Fatalf("%s: host %d has %d CPUs in use, want %d", step, n, got, want[n])
		}
	}
}

// TestConsumptionInEveryOrder: whatever the order of choices, the cell's answers, rows,
// imports and ends, with replicas that are behind and answers that are old, no instance
// counts zero times from when it was heard of; and once nothing happens any more each
// counts once.
func TestConsumptionInEveryOrder(t *testing.T) {
	twice := 0
	for seed := range uint64(150) {
		h := &history{world: newWorld(t, 4)}
		h.rng = rand.New(rand.NewPCG(seed, 7))
		for k := range 120 {
			h.at = h.at.Add(time.Duration(h.rng.Int64N(int64(900 * time.Millisecond))))
			step := fmt.Sprintf("seed %d, step %d", seed, k)
			switch h.rng.IntN(9) {
			case 0, 1:
				h.choose()
			case 2, 3:
				h.show()
			case 4:
				h.imports()
			case 5:
				h.end()
			case 6, 7:
				h.poll(behind)
				if h.rng.IntN(2) == 0 { // something happens before the rows are read
					h.at = h.at.Add(time.Duration(h.rng.Int64N(int64(time.Second))))
					h.choose()
					h.show()
				}
				h.refresh()
			case 8:
				h.refresh() // the cell did not answer: what it said before is given again
			}
			h.check(step)
			for _, l := range h.lives {
				if _, beside := h.known.claims[l.claim.GetClaimId()]; beside && l.inRow {
					twice++
				}
			}
		}
		for _, l := range h.lives {
			for l.ended.IsZero() && l.imported.IsZero() {
				h.show()
				h.imports()
			}
		}
		h.at = h.at.Add(behind + 3*time.Second)
		h.poll(0)
		h.refresh()
		h.check(fmt.Sprintf("seed %d, at last", seed))
		if n := len(h.known.claims); n != 0 {
			t.Fatalf("seed %d: %d claims count beside the rows that show them", seed, n)
		}
	}
	if twice == 0 {
		t.Error("nothing ever counted twice for a moment: the orders are no test")
	}
}

// A choice whose time is over holds nothing, unless the cell still awaits it: it was
// confirmed.
func TestConsumptionEndsWithTheLease(t *testing.T) {
	w := newWorld(t, 1)
	w.update()
	lost, confirmed := newClaim(3, 0), newClaim(1, 0)
	for _, c := range []*cellv1.NewClaim{lost, confirmed} {
		w.Chose(c, w.at.Add(5*time.Minute))
	}
	w.at = w.at.Add(5*time.Minute - time.Second)
	asked := w.at.Add(-10 * time.Minute) // the cell has not answered since
	w.Update(w.snapshot(), w.at, nil, asked)
	if got := w.used(0, vcpu); got != 6 {
		t.Errorf("%d in use before their time is over, want 6", got)
	}
	w.at = w.at.Add(time.Second)
	w.update(awaitedOf(confirmed))
	if got := w.used(0, vcpu); got != 2 {
		t.Errorf("%d in use, want the confirmed one's 2", got)
	}
}

// An answer that may lack claims takes none away.
func TestConsumptionOfAnAnswerThatIsCut(t *testing.T) {
	w := newWorld(t, 1)
	w.Chose(newClaim(3, 0), w.at.Add(time.Hour))
	w.update(awaitedOf(newClaim(1, 0)))
	w.at = w.at.Add(time.Minute)
	w.Update(w.snapshot(), w.at, []*cellv1.AwaitedClaim{awaitedOf(newClaim(2, 0))}, time.Time{})
	if got := w.used(0, vcpu); got != 4+2+3 {
		t.Errorf("%d in use, want 9", got)
	}
	w.at = w.at.Add(time.Minute)
	w.update()
	if got := w.used(0, vcpu); got != 0 {
		t.Errorf("%d in use after a whole answer", got)
	}
}

// A claim that is swapped moves; an answer from before the swap does not move it back,
// and an ended one is not brought back by an answer from before its end.
func TestConsumptionFollowsSwaps(t *testing.T) {
	w := newWorld(t, 3)
	w.update()
	c := newClaim(3, 0)
	w.Chose(c, w.at.Add(time.Hour))
	before, asked := awaitedOf(c), w.at
	w.at = w.at.Add(time.Second)
	swapped := newClaim(3, 1)
	w.Chose(swapped, w.at.Add(time.Hour))
	w.Update(w.snapshot(), w.at, []*cellv1.AwaitedClaim{before}, asked)
	if w.used(0, vcpu) != 0 || w.used(1, vcpu) != 4 {
		t.Errorf("%d and %d in use, want 0 and 4", w.used(0, vcpu), w.used(1, vcpu))
	}
	if places := w.versions.Current().Places(instanceID(3)); len(places) != 1 || places[0].Host != hostID(1) {
		t.Errorf("the instance is on %v", places)
	}
	// Another gateway swaps it: the cell's word counts.
	w.at = w.at.Add(10 * time.Second)
	w.update(awaitedOf(newClaim(3, 2)))
	if w.used(1, vcpu) != 0 || w.used(2, vcpu) != 4 {
		t.Errorf("%d and %d in use, want 0 and 4", w.used(1, vcpu), w.used(2, vcpu))
	}
	asked = w.at
	w.at = w.at.Add(time.Second)
	w.Ended(c.GetClaimId())
	w.Update(w.snapshot(), w.at, []*cellv1.AwaitedClaim{awaitedOf(newClaim(3, 2))}, asked)
	if w.used(2, vcpu) != 0 || len(w.versions.Current().Places(instanceID(3))) != 0 {
		t.Errorf("%d in use after its end", w.used(2, vcpu))
	}
	if _, ok := w.versions.Current().Host(schedule.ID{}); ok {
		t.Error("there is a host of no uuid")
	}
}
