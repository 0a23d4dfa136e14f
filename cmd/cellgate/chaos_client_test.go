package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// asChaosClient makes the test binary the client of the chaos test: a process that outlives all
// others and records the answers on disk. The variable's value is a chaosLoad. Commands come as
// lines on its standard input (go, pause, count). It answers each with one line, a chaosCount.
const asChaosClient = "CELLGATE_TEST_BINARY_IS_CHAOS_CLIENT"

// chaosCount is the client's progress.
type chaosCount struct {
	InFlight     int64 `json:"in_flight"`
	Sent         int64 `json:"sent"`
	Acknowledged int64 `json:"acknowledged"`
	Refused      int64 `json:"refused"`
	// Unanswered calls ended in an error after which a claim may exist.
	Unanswered int64 `json:"unanswered"`
	// Cut counts those of them that broke or timed out in progress.
	Cut       int64 `json:"cut"`
	Confirmed int64 `json:"confirmed"`
	Released  int64 `json:"released"`
	// GivenUp counts calls whose deadline of milliseconds passed. Beside counts calls that were
	// sent while the same request was running. Differed counts those of them with a different
	// answer.
	GivenUp  int64 `json:"given_up"`
	Beside   int64 `json:"beside"`
	Differed int64 `json:"differed"`
}

type chaosClient struct {
	chaosLoad
	log   *noteLog
	gate  gate
	count struct {
		inFlight, sent, acknowledged, refused, unanswered, cut, confirmed, released, givenUp, beside, differed atomic.Int64
	}
}

// gate lets workers pass while it is open, and tells when all workers wait.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	open    bool
	closed  chan struct{} // closed while the gate is
	busy    int
}

func (g *gate) init(workers int) {
	g.changed = sync.NewCond(&g.mu)
	g.busy = workers
	g.closed = make(chan struct{})
	close(g.closed)
}

// pass waits until the gate is open.
func (g *gate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.open {
		g.busy--
		g.changed.Broadcast()
		g.changed.Wait()
		g.busy++
	}
}

func (g *gate) unlock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		g.open, g.closed = true, make(chan struct{})
		g.changed.Broadcast()
	}
}

// lock closes the gate and waits until every worker rests.
func (g *gate) lock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		g.open = false
		close(g.closed)
	}
	for g.busy > 0 {
		g.changed.Wait()
	}
}

// shut is closed while the gate is closed.
func (g *gate) shut() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// chaosClientMain runs the client process, which ends with its standard input.
func chaosClientMain(config string) error {
	c := &chaosClient{}
	if err := json.Unmarshal([]byte(config), &c.chaosLoad); err != nil {
		return err
	}
	log, err := newNoteLog(c.Log)
	if err != nil {
		return err
	}
	c.log = log
	c.gate.init(c.Workers)
	for i := range 8 {
		conn, err := rpc.Dial(c.Addr)
		if err != nil {
			return err
		}
		for w := i; w < c.Workers; w += 8 {
			worker := &chaosWorker{chaosClient: c, name: w, scheduler: cellgatev1.NewSchedulerClient(conn), claims: cellgatev1.NewClaimsClient(conn)}
			go worker.run()
		}
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "go":
			c.gate.unlock()
		case "pause":
			c.gate.lock()
		case "count":
		default:
			return fmt.Errorf("unknown command %q", lines.Text())
		}
		if err := json.NewEncoder(os.Stdout).Encode(c.counted()); err != nil {
			return err
		}
	}
	return c.log.close() // workers still running get nothing more on disk
}

func (c *chaosClient) counted() chaosCount {
	n := &c.count
	return chaosCount{
		InFlight: n.inFlight.Load(), Sent: n.sent.Load(), Acknowledged: n.acknowledged.Load(), Refused: n.refused.Load(),
		Unanswered: n.unanswered.Load(), Cut: n.cut.Load(), Confirmed: n.confirmed.Load(), Released: n.released.Load(),
		GivenUp: n.givenUp.Load(), Beside: n.beside.Load(), Differed: n.differed.Load(),
	}
}

// chaosWorker has one request on its way at a time.
type chaosWorker struct {
	*chaosClient
	name, n   int
	scheduler cellgatev1.SchedulerClient
	claims    cellgatev1.ClaimsClient
	// kept are confirmed claims. When there are too many, the oldest is released.
	kept []keptClaim
}

type keptClaim struct {
	request string
	noteClaim
}

const keepConfirmed = 2

func (w *chaosWorker) run() {
	for {
		w.gate.pass()
		w.n++
		id := fmt.Sprintf("%s%d-%d", chaosRequests, w.name, w.n)
		req := w.request(id)
		claims := w.ask(id, req)
		switch {
		case claims == nil:
		case req.confirm:
			for _, c := range claims {
				w.confirm(id, c)
			}
		case req.release:
			for _, c := range claims {
				w.release(id, c)
			}
		}
		for len(w.kept) > keepConfirmed {
			w.release(w.kept[0].request, w.kept[0].noteClaim)
			w.kept = w.kept[1:]
		}
	}
}

// call makes one call, which counts as in flight.
func (w *chaosWorker) call(do func(context.Context) error) error { return w.callWithin(w.Within, do) }

func (w *chaosWorker) callWithin(within time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	w.count.inFlight.Add(1)
	defer w.count.inFlight.Add(-1)
	err := do(ctx)
	if within < w.Within && (ctx.Err() != nil || rpc.TimedOut(err)) {
		return err // the client itself gave up
	}
	// Only a status of gRPC itself counts as cut. A call that was never sent on a connection was
	// not cut.
	var e *fault.Error
	if errors.As(err, &e) && e.Cause != nil && e.Message != "could not be reached" && !strings.Contains(e.Cause.Error(), "server preface") {
		w.count.cut.Add(1)
	}
	return err
}

// note writes a note. The client exits if it cannot.
func (w *chaosWorker) note(n note) {
	if err := w.log.write(n); err != nil {
		fmt.Fprintln(os.Stderr, "chaos client: the log cannot be written:", err)
		os.Exit(1)
	}
}

// rest waits before the next attempt. It returns false if the gate is closed.
func (w *chaosWorker) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.gate.shut():
		return false
	}
}

// ask sends a request, and repeats it if it insists. It returns the claims once they are in the
// log.
func (w *chaosWorker) ask(id string, req chaosRequest) []noteClaim {
	// A later attempt may be answered with what the first one claimed.
	sent := time.Now()
	// If a hurried call is answered, its caller did not wait for the answer.
	for _, within := range req.hurried {
		if _, err := w.sends(within, req); err != nil {
			w.count.givenUp.Add(1)
		}
	}
	for {
		resp, err := w.sendsBeside(req)
		switch kind := fault.KindOf(err); {
		case err == nil:
			n := acknowledged(id, sent, resp)
			w.note(n)
			w.count.acknowledged.Add(1)
			return n.Claims
		case kind == fault.NoValidHost:
			w.count.refused.Add(1)
			w.rest(20 * time.Millisecond)
			return nil
		case passing(err):
			w.count.unanswered.Add(1)
			if !w.rest(100*time.Millisecond) || !req.insist {
				return nil
			}
		default:
			w.note(note{Kind: noteOdd, Request: id, Error: err.Error()})
			w.rest(100 * time.Millisecond)
			return nil
		}
	}
}

// sends does one call of a request.
func (w *chaosWorker) sends(within time.Duration, req chaosRequest) (resp *cellgatev1.SelectDestinationsResponse, err error) {
	w.count.sent.Add(1)
	err = w.callWithin(within, func(ctx context.Context) (err error) {
		resp, err = w.scheduler.SelectDestinations(ctx, req.SelectDestinationsRequest)
		return err
	})
	return resp, err
}

// sendsBeside makes a call of a request, and the request's concurrent calls. All get the same
// answer, unless a cell is unavailable for some of them. Then a last call finds which claims hold.
func (w *chaosWorker) sendsBeside(req chaosRequest) (*cellgatev1.SelectDestinationsResponse, error) {
	others := make([]*cellgatev1.SelectDestinationsResponse, req.beside)
	var all sync.WaitGroup
	for i := range others {
		all.Go(func() {
			w.count.beside.Add(1)
			// The first call gets the same error, or an answer.
			others[i], _ = w.sends(w.Within, req)
		})
	}
	resp, err := w.sends(w.Within, req)
	all.Wait()
	for _, other := range others {
		if err == nil && other != nil && essence(other) != essence(resp) {
			w.count.differed.Add(1)
			return w.sends(w.Within, req)
		}
	}
	return resp, err
}

// passing reports whether err is normal while parts of the system are down. A claim may exist.
func passing(err error) bool {
	switch fault.KindOf(err) {
	case fault.CellUnavailable, fault.OutcomeUnknown, fault.Overloaded, fault.Contended:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// confirm confirms a claim and keeps it. If the gate closes, it gives up without knowing the
// outcome.
func (w *chaosWorker) confirm(id string, c noteClaim) {
	w.note(note{Kind: noteConfirming, Request: id, Claim: c.Claim})
	for {
		err := w.call(func(ctx context.Context) error {
			_, err := w.claims.ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: c.Consumer, ClaimId: c.Claim, Cell: c.Cell})
			return err
		})
		switch kind := fault.KindOf(err); {
		case err == nil:
			w.note(note{Kind: noteConfirmed, Request: id, Claim: c.Claim})
			w.count.confirmed.Add(1)
			w.kept = append(w.kept, keptClaim{id, c})
			return
		case kind == fault.ClaimExpired, kind == fault.NotFound:
			w.note(note{Kind: noteEnded, Request: id, Claim: c.Claim, Error: err.Error()})
			return
		case !passing(err):
			w.note(note{Kind: noteOdd, Request: id, Claim: c.Claim, Error: err.Error()})
			return
		}
		if !w.rest(100 * time.Millisecond) {
			return
		}
	}
}

func (w *chaosWorker) release(id string, c noteClaim) {
	w.note(note{Kind: noteReleasing, Request: id, Claim: c.Claim})
	for {
		err := w.call(func(ctx context.Context) error {
			_, err := w.claims.ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: c.Consumer, ClaimId: c.Claim, Cell: c.Cell})
			return err
		})
		switch {
		case err == nil:
			w.note(note{Kind: noteReleased, Request: id, Claim: c.Claim})
			w.count.released.Add(1)
			return
		case !passing(err):
			w.note(note{Kind: noteOdd, Request: id, Claim: c.Claim, Error: err.Error()})
			return
		}
		if !w.rest(100 * time.Millisecond) {
			return
		}
	}
}
