package selection

import (
	"context"
	"errors"
	"sync"

	"cellgate/internal/fault"
)

// flights makes equal requests run one after the other. Two concurrent calls with one
// request_id and one fingerprint would each find no claim, and each make one, in different
// cells. So the second one waits, and then finds the claims of the first
// (selection.takeOver).
//
// It only serves the calls of one gateway; for several gateways see docs/adr/0005.
type flights struct {
	mu      sync.Mutex
	running map[flight]*turn
}

// flight names a request that may be sent again.
type flight struct{ requestID, fingerprint string }

// turn is held by the running call; calls counts that call and those that wait.
type turn struct {
	held  chan struct{} // capacity one
	calls int
}

func newFlights() *flights { return &flights{running: map[flight]*turn{}} }

// enter waits until no equal call runs, or ctx ends. If there is no error, leave must be
// called once.
func (f *flights) enter(ctx context.Context, key flight) (leave func(), err error) {
	f.mu.Lock()
	t := f.running[key]
	if t == nil {
		t = &turn{held: make(chan struct{}, 1)}
		f.running[key] = t
	}
	t.calls++
	f.mu.Unlock()
	select {
	case t.held <- struct{}{}:
		return func() {
			<-t.held
			f.drop(key, t)
		}, nil
	case <-ctx.Done():
		f.drop(key, t)
		return nil, ctx.Err()
	}
}

// drop removes a call; the last call deletes the turn.
func (f *flights) drop(key flight, t *turn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.calls--; t.calls == 0 {
		delete(f.running, key)
	}
}

// takeTurn waits for earlier calls of the same request. A request without an id, or one that
// claims nothing, does not wait.
func (s *selection) takeTurn(ctx context.Context) (leave func(), err error) {
	id := s.req.GetRequestId()
	if id == "" || !s.claims() {
		return func() {}, nil
	}
	leave, err = s.svc.flights.enter(ctx, flight{requestID: id, fingerprint: string(s.fingerprint)})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fault.Wrap(fault.OutcomeUnknown, err, "request_id %q: the same request was sent before, and still runs", id)
	}
	return leave, err
}
