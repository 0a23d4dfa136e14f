package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// OpenLoad is a load at a fixed rate: a selection is sent when it is due, whether
// those before it were answered or not, and whatever a refusal asks for.
type OpenLoad struct {
	// Rate is how many selections are sent each second, evenly over the connections.
	Rate float64
	// Duration is how long they are sent.
	Duration time.Duration
	// MaxPending bounds the selections on their way. One that is due beyond that is not
	// sent, and counted.
	MaxPending int64
	// CallWithin is the deadline of each call.
	CallWithin time.Duration
	// Seed decides what the requests are like.
	Seed uint64
}

// OpenCall is one selection and how it ended.
type OpenCall struct {
	// Sent is when, since the load began; Took is how long until its answer.
	Sent, Took time.Duration
	// Kind is that of its error; empty for an answer.
	Kind fault.Kind
	// Err is the error; nil for an answer.
	Err error
}

// OpenResult is what a load at a fixed rate came to.
type OpenResult struct {
	// Calls in the order of their answers.
	Calls []OpenCall
	// NotSent counts those that were due and not sent because of MaxPending.
	NotSent int64
	// Releases counts what was selected and given back; ReleaseErrors those that
	// failed, by kind.
	Releases      int
	ReleaseErrors map[fault.Kind]int
}

// RunOpen makes the load over the connections and waits until every call has ended,
// also those under way when ctx or the duration ends. What was selected is released.
func RunOpen(ctx context.Context, conns []grpc.ClientConnInterface, l OpenLoad) OpenResult {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, l.Duration)
	defer cancel()
	var pending atomic.Int64
	senders := make([]openSender, len(conns))
	var all sync.WaitGroup
	for i, conn := range conns {
		s := &senders[i]
		s.scheduler, s.claims = cellgatev1.NewSchedulerClient(conn), cellgatev1.NewClaimsClient(conn)
		s.maker = maker{shape: Same, dice: rand.New(rand.NewPCG(l.Seed, uint64(i)))}
		s.load, s.began, s.pending = l, began, &pending
		s.result.ReleaseErrors = map[fault.Kind]int{}
		all.Go(func() { s.run(ctx, l.Rate/float64(len(conns))) })
	}
	all.Wait()
	sum := OpenResult{ReleaseErrors: map[fault.Kind]int{}}
	for i := range senders {
		r := &senders[i].result
		sum.Calls = append(sum.Calls, r.Calls...)
		sum.NotSent += r.NotSent
		sum.Releases += r.Releases
		for k, n := range r.ReleaseErrors {
			sum.ReleaseErrors[k] += n
		}
	}
	return sum
}

// openSender sends over one connection.
type openSender struct {
	scheduler cellgatev1.SchedulerClient
	claims    cellgatev1.ClaimsClient
	maker     maker
	load      OpenLoad
	began     time.Time
	// pending counts the selections of all senders that are on their way.
	pending *atomic.Int64

	mu     sync.Mutex
	result OpenResult
}

// openTick is how often a sender looks what is due.
const openTick = 2 * time.Millisecond

func (s *openSender) run(ctx context.Context, rate float64) {
	tick := time.NewTicker(openTick)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	began, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * rate); sent < due; sent++ {
			if s.pending.Add(1) > s.load.MaxPending {
				s.pending.Add(-1)
				s.result.NotSent++ // only here until all have ended
				continue
			}
			req, _ := s.maker.next()
			all.Go(func() { s.one(ctx, req) })
		}
	}
}

// one selects and gives back what it got.
func (s *openSender) one(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) {
	ctx = context.WithoutCancel(ctx)
	bounded, cancel := context.WithTimeout(ctx, s.load.CallWithin)
	began := time.Now()
	resp, err := s.scheduler.SelectDestinations(bounded, req)
	took := time.Since(began)
	cancel()
	s.pending.Add(-1)
	s.mu.Lock()
	s.result.Calls = append(s.result.Calls, OpenCall{Sent: began.Sub(s.began), Took: took, Kind: fault.KindOf(err), Err: err})
	s.mu.Unlock()
	for _, d := range resp.GetDestinations() {
		bounded, cancel := context.WithTimeout(ctx, s.load.CallWithin)
		_, err := s.claims.ReleaseClaim(bounded, &cellgatev1.ReleaseClaimRequest{
			ConsumerUuid: d.GetInstanceUuid(), ClaimId: d.GetSelected().GetClaimId(), Cell: d.GetSelected().GetCell(),
		})
		cancel()
		s.mu.Lock()
		s.result.Releases++
		if err != nil {
			s.result.ReleaseErrors[fault.KindOf(err)]++
		}
		s.mu.Unlock()
	}
}

// QuantilesOf gives the quantiles of the calls that ended with a kind, or, for an
// empty one, of those answered, and how many they are.
func (r OpenResult) QuantilesOf(kind fault.Kind) (Quantiles, int) {
	var took []time.Duration
	for _, c := range r.Calls {
		if c.Kind == kind {
			took = append(took, c.Took)
		}
	}
	return quantilesOf(took), len(took)
}
