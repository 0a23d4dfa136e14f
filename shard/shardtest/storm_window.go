package shardtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// window is the history of one window.
type window struct {
	storm  *Storm
	begin  time.Time
	before []int64
	turns  int
	// reads gets a token for each read that the reader shall make.
	reads chan struct{}

	mu       sync.Mutex
	sums     Sums
	history  []porcupine.Operation
	promises []promise
	open     []*step
	wrong    []string
	last     int64
}

// promise is an entry that a caller was answered with, and one of its claims.
type promise struct {
	lane  shard.LaneID
	seq   uint64
	claim string
}

func (w *window) now() int64 { return time.Since(w.begin).Nanoseconds() }

// answered records a caller's answer. If a batch was sent again, an earlier entry may have done it.
func (w *window) answered(st *step, o shard.Outcome, e shard.Entry, end int64, again bool) {
	if o.Refusal != nil {
		w.sums.Refused++
		host, amount := st.claim.host, st.claim.amount
		if st.op.Swap != nil {
			host, amount = st.to, st.amount
		}
		switch {
		case st.op.Claim == nil && st.op.Swap == nil:
			w.wrong = append(w.wrong, fmt.Sprintf("claim %s, which its caller has, was refused: %+v", ClaimID(st.claim.n), *o.Refusal))
		case o.Refusal.Kind == fault.NoValidHost:
			w.remember(access{host: host, kind: takeSome, amount: amount}, 0, st.begin, end)
		case o.Refusal.Kind != fault.AlreadyExists:
			w.wrong = append(w.wrong, fmt.Sprintf("claim %s was refused: %+v", ClaimID(st.claim.n), *o.Refusal))
		}
		return
	}
	w.sums.Done++
	w.happened(st, end)
	if e.Seq > 0 && (st.op.Confirm == nil && !again || o.Claim != nil && o.Claim.UpdatedAt.Equal(e.At)) {
		w.promises = append(w.promises, promise{e.Lane, e.Seq, ClaimID(st.claim.n)})
	}
}

// happened records an operation that was done between begin and end.
func (w *window) happened(st *step, end int64) {
	h := st.claim
	switch {
	case st.op.Claim != nil:
		w.remember(access{host: h.host, kind: takeSome, amount: h.amount}, 1, st.begin, end)
		w.storm.live[ClaimID(h.n)] = h
	case st.op.Release != nil:
		w.remember(access{host: h.host, kind: giveBack, amount: h.amount}, 1, st.begin, end)
		h.state = shard.Released
		delete(w.storm.live, ClaimID(h.n))
	case st.op.Confirm != nil:
		h.state = shard.Confirmed
	case h.state == shard.Confirmed:
		w.wrong = append(w.wrong, fmt.Sprintf("claim %s was swapped, and is CONFIRMED", ClaimID(h.n)))
	default:
		w.remember(access{host: h.host, kind: giveBack, amount: h.amount}, 1, st.begin, end)
		w.remember(access{host: st.to, kind: takeSome, amount: st.amount}, 1, st.begin, end)
		h.host, h.amount = st.to, st.amount
	}
}

func (w *window) remember(in access, out, begin, end int64) {
	in.before = w.before[in.host]
	w.history = append(w.history, porcupine.Operation{ClientId: len(w.history), Input: in, Output: out, Call: begin, Return: end})
}

// read loads the rows while the workers run.
func (w *window) read(ctx context.Context) {
	for range w.reads {
		begin := w.now()
		rows, _, err := LoadRows(ctx, w.storm.Look)
		if err != nil {
			continue // the database may be down at the moment; only successful reads count
		}
		end := w.now()
		w.mu.Lock()
		w.sums.Reads++
		w.wrong = append(append(w.wrong, rows.Check()...), rows.Overfull()...)
		for h := range w.before {
			w.remember(access{host: h, kind: lookAt}, rows.Usages[HostID(h)].Of(HostID(h), Class), begin, end)
		}
		w.mu.Unlock()
	}
}

// Settle returns once nothing of a lane is under way. Its empty operation makes the lane resolve a commit in doubt,
// and writes nothing.
func Settle(ctx context.Context, apply Apply) error {
	_, err := apply(ctx, []shard.Op{{Expire: &shard.ClaimRef{ClaimID: "nobody", ConsumerUUID: "nobody"}}})
	return err
}
