package peers

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"cellgate/internal/bench"
)

// The size of every claim.
const (
	claimVCPUs    = 2
	claimMemoryMB = 4096
	claimDiskGB   = 40
)

// claimLimit bounds one claim: Placement takes many seconds for one at 10,000 hosts.
const claimLimit = 2 * time.Minute

// freeingCallers is how many callers release what a step claimed.
const freeingCallers = 8

// claimer claims room for a consumer, and gives it back. lost counts the hosts that another claim
// was given first, after which the claim was tried again.
type claimer interface {
	claim(ctx context.Context, consumer string) (lost int, err error)
	free(ctx context.Context, consumer string) error
}

// step is the result of a number of callers.
type step struct {
	System  string  `json:"system"`
	Hosts   int     `json:"hosts"`
	Order   order   `json:"order"`
	Callers int     `json:"callers"`
	Claims  int     `json:"claims"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"claims_per_second"`
	// Latency of the claims that were made, retries included.
	Latency bench.Quantiles `json:"latency"`
	Lost    int             `json:"races_lost"`
	// Errors by text.
	Errors map[string]int `json:"errors"`
}

func (s *step) failed() (n int) {
	for _, k := range s.Errors {
		n += k
	}
	return n
}

// measure has callers claim until the time is over or most claims were begun, waits for those under
// way, and gives everything back. The rate counts the time until the last answer.
func measure(ctx context.Context, c claimer, callers, most int, each time.Duration) (step, error) {
	s := step{Callers: callers, Errors: map[string]int{}}
	first := uuid.NewString()
	if _, err := claimWithin(ctx, c, first); err != nil { // connections and caches, not measured
		return s, fmt.Errorf("the first claim: %w", err)
	}
	var (
		mu    sync.Mutex
		begun atomic.Int64
		took  []time.Duration
		made  = []string{first}
		all   sync.WaitGroup
	)
	began := time.Now()
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil && time.Since(began) < each && begun.Add(1) <= int64(most) {
				consumer, start := uuid.NewString(), time.Now()
				lost, err := claimWithin(ctx, c, consumer)
				d := time.Since(start)
				mu.Lock()
				s.Lost += lost
				made = append(made, consumer)
				if err != nil {
					s.Errors[err.Error()]++
				} else {
					took = append(took, d)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	s.Claims, s.Seconds = len(took), time.Since(began).Seconds()
	s.Rate = float64(s.Claims) / s.Seconds
	s.Latency = bench.QuantilesOf(took)
	return s, eachOf(slices.Values(made), freeingCallers, func(consumer string) error { return c.free(ctx, consumer) })
}

func claimWithin(ctx context.Context, c claimer, consumer string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, claimLimit)
	defer cancel()
	return c.claim(ctx, consumer)
}

// eachOf calls do with each of all, at most atOnce at a time, and returns the first error.
func eachOf[T any](all iter.Seq[T], atOnce int, do func(T) error) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for one := range all {
		g.Go(func() error { return do(one) })
	}
	return g.Wait()
}
