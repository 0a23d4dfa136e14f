package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"cellgate/cell/liveness"
	"cellgate/cell/proposals"
	"cellgate/internal/fault"
	"cellgate/schedule"
	"cellgate/shard"
)

const (
	// ColdHosts is how many hosts a small table has at most if Config.ColdHosts is not set.
	ColdHosts = 1000
	// ColdAtOnce is how many searches run in the shard at once. A database's pool has more connections
	// than that: the load and the lane need them.
	ColdAtOnce = 3
	// coldWaiting is how many searches may wait.
	coldWaiting = 64
	// coldPatience is how long a search may take. Gateways wait for it as long as for a claim, 2 s by
	// default.
	coldPatience = 1500 * time.Millisecond
	// ColdTries is how many searches in a row may take longer before the replica stops answering such
	// queries.
	ColdTries = 3
)

// coldSearch answers queries while the replica loads its table. Each answer comes from a small table of
// the hosts that the shard itself finds for the query (shard.HostFinder, HostQueryOf). All filters run
// on the small table, too, so the shard may find more hosts than pass, but never fewer.
//
// Queries that ask the shard the same share one search if it has not begun yet. So each kind of request
// costs one search at a time, however many callers there are, and each caller sees what was committed
// before its call.
type coldSearch struct {
	finder   shard.HostFinder // nil: the store is none
	cell     string
	versions *proposals.Versions
	most     int
	now      func() time.Time
	log      *slog.Logger

	// ctx bounds all searches; tasks are their goroutines.
	ctx   context.Context
	over  context.CancelFunc
	tasks sync.WaitGroup
	// running holds the searches under way.
	running chan struct{}

	mu    sync.Mutex
	ended bool
	// waiting are the searches that have not begun, by query.
	waiting map[string]*coldQuery

	// late counts the searches in a row that took too long.
	late atomic.Int32
	done atomic.Int64
	cut  sync.Once
}

// coldQuery is one question to the shard and, once done is closed, its answer.
type coldQuery struct {
	query shard.HostQuery
	// callers is how many wait for the answer. Guarded by coldSearch.mu.
	callers int
	done    chan struct{}
	at      proposals.Version
	name    string
	err     error
}

func newColdSearch(cellUUID string, hosts int, store shard.Store, v *proposals.Versions, now func() time.Time, log *slog.Logger) *coldSearch {
	c := &coldSearch{
		cell: cellUUID, versions: v, most: hosts, now: now, log: log,
		running: make(chan struct{}, ColdAtOnce), waiting: map[string]*coldQuery{},
	}
	c.finder, _ = store.(shard.HostFinder)
	c.ctx, c.over = context.WithCancel(context.Background())
	return c
}

// Serves reports whether queries can be answered by searches.
func (c *coldSearch) Serves() bool { return c.finder != nil && c.late.Load() < ColdTries }

// Answered is how many searches were answered.
func (c *coldSearch) Answered() int64 { return c.done.Load() }

// close ends the searches and waits for them.
func (c *coldSearch) close() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.over()
	c.tasks.Wait()
}

// Find returns a table of hosts for a query; the table is kept under the returned name.
func (c *coldSearch) Find(ctx context.Context, q *schedule.Query) (proposals.Version, string, error) {
	if err := judgeable(q.Request, q.Rules); err != nil {
		return proposals.Version{}, "", err
	}
	s, err := c.join(q)
	if err != nil {
		return proposals.Version{}, "", err
	}
	select {
	case <-s.done:
		return s.at, s.name, s.err
	case <-ctx.Done():
		c.mu.Lock()
		s.callers--
		c.mu.Unlock()
		return proposals.Version{}, "", ctx.Err()
	}
}

// join joins a waiting search for the same query, or starts one.
func (c *coldSearch) join(q *schedule.Query) (*coldQuery, error) {
	asked := HostQueryOf(q.Request, q.Rules)
	key := fmt.Sprintf("%#v", asked)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.waiting[key]
	switch {
	case c.ended:
		return nil, ErrStopping()
	case s == nil && len(c.waiting) >= coldWaiting:
		return nil, fault.New(fault.CellUnavailable, "the cell's replica is loading its shard, which too many other requests are waiting for")
	case s == nil:
		asked.Rows, asked.Limit, asked.From = true, c.most, somewhere(q.Seed)
		s = &coldQuery{query: asked, done: make(chan struct{})}
		c.waiting[key] = s
		c.tasks.Go(func() { c.run(key, s) })
	}
	s.callers++
	return s, nil
}

// somewhere returns the host uuid at which a search starts. It differs by seed, so that requests that
// find more hosts than a table holds do not all find the same ones.
func somewhere(seed uint64) string {
	var id schedule.ID
	binary.BigEndian.PutUint64(id[:8], schedule.Tie(seed, 1))
	binary.BigEndian.PutUint64(id[8:], schedule.Tie(seed, 2))
	return id.String()
}

func (c *coldSearch) run(key string, s *coldQuery) {
	defer close(s.done)
	select {
	case c.running <- struct{}{}:
		defer func() { <-c.running }()
	case <-c.ctx.Done():
	}
	c.mu.Lock()
	delete(c.waiting, key)
	unwanted := s.callers == 0
	c.mu.Unlock()
	if unwanted || c.ctx.Err() != nil {
		s.err = ErrStopping()
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, coldPatience)
	defer cancel()
	found, err := c.finder.FindHosts(ctx, s.query)
	switch {
	case err == nil:
		c.late.Store(0)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		if c.late.Add(1) == ColdTries {
			c.log.Warn("the shard takes too long to find hosts: nothing is answered until the table is loaded", "longer_than", coldPatience)
		}
		fallthrough
	default:
		s.err = StoreFault(err)
		return
	}
	c.done.Add(1)
	p := &proposals.Part{Hosts: found.Hosts, More: found.More}
	if p.More {
		c.cut.Do(func() {
			c.log.Warn("while the table is loaded, requests that more hosts may pass are answered from some of them: such answers say that they are not exact", "hosts", c.most)
		})
	}
	s.at = proposals.Version{Table: TableOf(c.cell, found.Rows, c.now), Part: p}
	s.name = c.versions.Keep(s.at)
}

// TableOf builds a table from rows with the code that builds the whole table. No host is down in it, as
// in a table that was just loaded.
func TableOf(cellUUID string, rows []shard.Change, now func() time.Time) *schedule.Table {
	v := proposals.NewVersions(time.Second, 1, now)
	w := newWriter(cellUUID, newRows(), liveness.New(time.Hour, now), v, nil, slog.New(slog.DiscardHandler))
	w.makeVersion([]tableUpdate{{changes: rows}})
	return v.Current()
}
