package comparison

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// attempts is how many hosts an instance is sent to at most ([scheduler]max_attempts).
const attempts = 3

// errNoHost: the scheduler knows no host for an instance.
var errNoHost = errors.New("no valid host")

// model is a scheduler that knows its hosts in one of three ways.
type model interface {
	// choose gives the host for an instance; tried refused it already.
	choose(ctx context.Context, instance string, f flavor, tried []string) (host string, err error)
	// gone hears that an instance ended, after its host did.
	gone(ctx context.Context, instance string) error
}

// load is what a run does.
type load struct {
	callers  int
	duration time.Duration
	// changes are the changes of state a second that no scheduler makes.
	changes int
	// full is the part of all VCPUs that instances have before. With churn the oldest
	// goes for each new one once callers have added 2 %; without, nothing goes, and the
	// run ends early when instances have 97 %.
	full  float64
	churn bool
	seed  uint64
}

// refusedPause is how long a caller that was told of no host waits before it asks for
// the next instance.
const refusedPause = 10 * time.Millisecond

// tally is what came of it.
type tally struct {
	name string
	// placed instances; attempted choices, of which the computes refused wrong.
	placed, attempted, wrong int
	// gaveUp were refused by three hosts; refused found no host, falsely while one
	// had room.
	gaveUp, refused, falsely int
	took                     time.Duration
	times                    []time.Duration
}

// placing is an instance that was placed.
type placing struct {
	instance string
	on       *compute
}

// drive loads a model for a while: callers place instances, one after the other; once
// the cloud is as full as it should be, the oldest goes for each new one.
func drive(t *testing.T, name string, w *cloud, m model, l load) *tally {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), l.duration+2*time.Minute)
	defer cancel()
	out := &tally{name: name}
	var mu sync.Mutex
	var placed []placing
	var callers, changer sync.WaitGroup
	stop := make(chan struct{})
	changer.Go(func() {
		r := rand.New(rand.NewPCG(l.seed, 2))
		tick := time.NewTicker(time.Second / time.Duration(max(l.changes, 1)))
		defer tick.Stop()
		for n := 0; l.changes > 0; n++ {
			select {
			case <-stop:
				return
			case <-tick.C:
				w.computes[r.IntN(len(w.computes))].change(r, uuidOf(0xee000000, n))
			}
		}
	})
	vcpus := len(w.computes) * int(size.vcpus)
	most := vcpus / 50 / 4
	if !l.churn {
		most = vcpus
	}
	began := time.Now()
	for caller := range l.callers {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(l.seed, uint64(caller)+10))
			for n := 0; time.Since(began) < l.duration && (l.churn || w.vcpusUsed() < int64(vcpus)*97/100); n++ {
				one := placeOne(ctx, w, m, uuidOf(caller+1, n), flavors[r.IntN(len(flavors))])
				mu.Lock()
				out.add(&one.tally)
				var oldest *placing
				if one.on != nil {
					placed = append(placed, placing{one.instance, one.on})
				}
				if len(placed) > most {
					oldest = &placing{placed[0].instance, placed[0].on}
					placed = placed[1:]
				}
				mu.Unlock()
				if one.err != nil {
					t.Errorf("%s: instance %s: %v", name, one.instance, one.err)
					return
				}
				if one.refused > 0 {
					select {
					case <-time.After(refusedPause):
					case <-ctx.Done():
					}
				}
				if oldest != nil {
					oldest.on.remove(oldest.instance)
					if err := m.gone(ctx, oldest.instance); err != nil {
						t.Errorf("%s: end of instance %s: %v", name, oldest.instance, err)
						return
					}
				}
			}
		})
	}
	callers.Wait()
	out.took = time.Since(began)
	close(stop)
	changer.Wait()
	w.check(t)
	return out
}

// placement is one instance's way.
type placement struct {
	tally
	placing
	err error
}

// placeOne chooses a host for an instance until one takes it.
func placeOne(ctx context.Context, w *cloud, m model, instance string, f flavor) (p placement) {
	p.instance = instance
	var tried []string
	began := time.Now()
	for range attempts {
		host, err := m.choose(ctx, instance, f, tried)
		if errors.Is(err, errNoHost) {
			p.refused++
			if w.room(f) {
				p.falsely++
			}
			return p
		}
		if err != nil {
			p.err = err
			return p
		}
		p.attempted++
		c := w.byUUID[host]
		if c.build(instance, f) {
			p.on = c
			p.placed++
			p.times = append(p.times, time.Since(began))
			return p
		}
		p.wrong++
		tried = append(tried, c.name)
	}
	p.gaveUp++
	return p
}

func (t *tally) add(o *tally) {
	t.placed += o.placed
	t.attempted += o.attempted
	t.wrong += o.wrong
	t.gaveUp += o.gaveUp
	t.refused += o.refused
	t.falsely += o.falsely
	t.times = append(t.times, o.times...)
}
