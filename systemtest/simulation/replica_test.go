package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"

	"cellgate/cell"
	"cellgate/internal/rpc"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

const (
	// downAfter is how long a host may be silent. beatEvery is the heartbeat interval, and
	// tailEvery the interval of reading journals. compareEvery is how often a replica compares its
	// table with the shard and the hosts.
	downAfter    = 20 * time.Second
	beatEvery    = 5 * time.Second
	tailEvery    = 250 * time.Millisecond
	compareEvery = 2 * time.Second
)

// simCell is a cell: its shard, and its replicas.
type simCell struct {
	n        int
	name     string
	uuid     string
	store    *pebbleshard.Store
	clock    clock
	replicas []*replica

	mu sync.Mutex
	// incarnations is the newest incarnation of each replica that opened a lane.
	incarnations map[string]int
}

func (w *world) newCell(n int) *simCell {
	c := &simCell{n: n, name: w.plan.cellName(n), uuid: uuidOf(0xc, n+1), incarnations: map[string]int{}}
	store, err := pebbleshard.OpenMem(pebbleshard.Options{Cell: c.name, CellUUID: c.uuid, Clock: c.clock.now, Log: w.log})
	w.must(err)
	c.store = store
	for r := range w.plan.replicas {
		c.replicas = append(c.replicas, &replica{world: w, cell: c, name: w.plan.replicaName(c.n, r)})
	}
	return c
}

// replica is a scheduler replica of a cell, alive or not.
type replica struct {
	world *world
	cell  *simCell
	name  string
	clock clock

	mu   sync.Mutex
	n    int // number of incarnations started
	runs *running
}

// running is an incarnation of a replica.
type running struct {
	incarnation *incarnation
	paused      *gate
	handle      *handle
	cell        *cell.Cell
	direct      direct
	cancel      context.CancelFunc
	stop        func() // the server
	ended       chan error
}

// start starts an incarnation, unless one runs.
func (r *replica) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs != nil {
		return
	}
	r.n++
	w := r.world
	run := &running{incarnation: newIncarnation(), paused: &gate{}, ended: make(chan error, 1)}
	run.handle = &handle{
		Store: r.cell.store, cell: r.cell, replica: r.name, n: r.n, incarnation: run.incarnation, paused: run.paused,
		rng: rand.New(rand.NewPCG(w.plan.seed, hash(r.name, fmt.Sprint(r.n)))),
	}
	c, err := cell.New(cell.Config{
		Name: r.cell.name, UUID: r.cell.uuid, Replica: r.name, VerifyMode: w.plan.mode,
		ServiceDownTime: downAfter, HeartbeatEvery: beatEvery, TailEvery: tailEvery, ReconcileInterval: compareEvery,
	}, cell.Deps{Store: run.handle.store(), Log: w.log, Now: r.clock.now})
	w.must(err)
	run.cell = c
	server, l := rpc.NewServer(w.log, append(cell.ServerOptions(), grpc.ChainStreamInterceptor(w.reports))...), w.net.listen(r.name)
	c.Register(server)
	c.Register(&run.direct)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	ctx, cancel := context.WithCancel(context.Background())
	run.cancel = cancel
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	run.stop = func() {
		w.net.leave(r.name, l)
		server.Stop()
		<-served
	}
	r.runs = run
	w.trace("%s starts incarnation %d", r.name, r.n)
	go func() {
		err := <-ended
		run.ended <- err
		// A replica that ends by itself is restarted, as a supervisor would.
		r.mu.Lock()
		own := r.runs == run
		r.mu.Unlock()
		if own {
			w.trace("%s ended by itself: %v", r.name, err)
			if !errors.Is(err, shard.ErrFenced) && !errors.Is(err, shard.ErrBroken) && !run.incarnation.over() {
				w.wrong("%s ended by itself: %v", r.name, err)
			}
			r.stopIncarnation(false)
			w.later(time.Second, r.start)
		}
	}()
}

// stopIncarnation ends the current incarnation: gently, or at once, with all messages in flight
// lost.
func (r *replica) stopIncarnation(gently bool) {
	r.mu.Lock()
	run := r.runs
	r.runs = nil
	r.mu.Unlock()
	if run != nil {
		if !gently {
			run.incarnation.die()
			r.world.net.silence(r.name, func(*wire) bool { return true })
		}
		run.paused.open()
		run.cancel()
		err := <-run.ended
		run.ended <- err
		// Another fault may have started the next incarnation.
		if gently && err != nil && !errors.Is(err, shard.ErrFenced) {
			r.world.wrong("%s was stopped and ended with %v", r.name, err)
		}
		run.stop()
		run.incarnation.die()
	}
}

// alive returns the current incarnation, or nil.
func (r *replica) alive() *running {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs
}

// usurp pauses a replica, starts another process under its name, and later resumes the old one,
// whose lane is then fenced.
func (r *replica) usurp(wakes time.Duration) {
	r.mu.Lock()
	old := r.runs
	r.runs = nil
	r.mu.Unlock()
	if old == nil {
		return
	}
	old.paused.close()
	r.world.net.silence(r.name, func(*wire) bool { return true })
	r.start()
	r.world.later(wakes, func() {
		old.paused.open()
		select {
		case err := <-old.ended:
			old.ended <- err
			if !errors.Is(err, shard.ErrFenced) {
				r.world.wrong("%s was fenced and ended with %v", r.name, err)
			}
			r.world.count("a replica found that it was fenced")
		case <-time.After(30 * time.Second): // it had nothing to write
			old.incarnation.die()
		}
		old.cancel()
		<-old.ended
		old.stop()
		old.incarnation.die()
	})
}
