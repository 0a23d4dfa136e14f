package storebench

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"cellgate/shard"
)

// scheduler is like a replica of a cell: a lane, and a view of the hosts. It knows its own claims at
// once, and those of others from the journal.
type scheduler struct {
	number, of       int
	store            shard.Store
	lane             shard.Lane
	order, partition string
	queue            chan asked
	batch            int
	// cursor is its position in the journal; one goroutine uses it at a time.
	cursor shard.Cursor

	mu    sync.Mutex
	round *round
	free  []int
	// mine are the hosts among which it picks, in order; those before from are full.
	mine []int
	from int
	all  bool
	// width is the number of hosts among which PackAmong picks. It grows with each refusal.
	width float64
}

// begin takes over the hosts of a round.
func (s *scheduler) begin(r *round) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round, s.free, s.mine, s.from = r, make([]int, r.hosts), nil, 0
	s.all = s.partition != Modulo
	for i := range s.free {
		s.free[i] = Fits
		if s.all || i%s.of == s.number {
			s.mine = append(s.mine, i)
		}
	}
}

// choose returns a host that has room as far as the scheduler knows, except tried ones. If none of its
// part has room, the scheduler continues with all hosts.
func (s *scheduler) choose(tried []int) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if h, ok := s.among(tried); ok || s.all {
			return h, ok
		}
		s.all, s.from, s.mine = true, 0, nil
		for i := range s.free {
			s.mine = append(s.mine, i)
		}
	}
}

func (s *scheduler) among(tried []int) (int, bool) {
	fits := func(h int) bool { return s.free[h] > 0 && !slices.Contains(tried, h) }
	n := len(s.mine)
	if n == 0 {
		return 0, false
	}
	if s.order == PackFirst || s.order == PackAmong {
		for s.from < n && s.free[s.mine[s.from]] <= 0 {
			s.from++
		}
		width := 1
		if s.order == PackAmong {
			width = max(1, int(s.width))
		}
		first := make([]int, 0, 32)
		for i := s.from; i < n && len(first) < width; i++ {
			if fits(s.mine[i]) {
				first = append(first, s.mine[i])
			}
		}
		if len(first) == 0 {
			return 0, false
		}
		return first[rand.IntN(len(first))], true
	}
	best, found := 0, false
	for i, start := 0, rand.IntN(n); i < n; i++ {
		h := s.mine[(start+i)%n]
		if !fits(h) {
			continue
		}
		if s.order == Random {
			return h, true
		}
		if !found || s.free[h] > s.free[best] {
			best, found = h, true
		}
	}
	return best, found
}

// isFull records a refusal, made a success. The steps are those of gateway/selection/contention.go.
func (s *scheduler) isFull(host int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free[host] = 0
	s.width = min(32, 1.5*max(1, s.width))
}

func (s *scheduler) made() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.width = max(1, 0.95*s.width)
}

// learn applies a journal entry's usage of hosts. A run releases nothing, so the lower free amount is
// the newer one.
func (s *scheduler) learn(changes []shard.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ch := range changes {
		if ch.Usage == nil {
			continue
		}
		if i, ok := s.round.index[ch.Usage.HostUUID]; ok {
			s.free[i] = min(s.free[i], Fits-int(ch.Usage.Of(ch.Usage.HostUUID, "VCPU")/2))
		}
	}
}

// work applies the queued operations. A transaction without an entry changed nothing.
func (s *scheduler) work(ctx context.Context, batches *atomic.Int64) {
	serve(ctx, s.lane, s.queue, s.batch, func(a shard.Applied) {
		batches.Add(1)
		s.learn(a.Entry.Changes)
	})
}

// follow reads the journal as often as a cell does (cell.tail_every), until ctx ends.
func (s *scheduler) follow(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.read(ctx); err != nil {
			return err
		}
	}
}

// read reads the journal to its end.
func (s *scheduler) read(ctx context.Context) error {
	for {
		entries, at, err := s.store.Tail(ctx, s.cursor, 1024)
		if err != nil || len(entries) == 0 {
			return err
		}
		s.cursor = at
		for _, e := range entries {
			s.learn(e.Changes)
		}
	}
}

// ownerOf returns the scheduler that owns a host, by rendezvous hashing.
func ownerOf(host string, schedulers int) int {
	best, most := 0, uint64(0)
	for i := range schedulers {
		h := fnv.New64a()
		_, _ = h.Write([]byte(strconv.Itoa(i) + " " + host)) // does not fail
		if w := h.Sum64(); i == 0 || w > most {
			best, most = i, w
		}
	}
	return best
}
