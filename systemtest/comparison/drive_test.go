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

// errNoHost means that the scheduler finds no host for an instance.
var errNoHost = errors.New("no valid host")

// model is a scheduler that knows its hosts in one of three ways.
type model interface {
	// choose returns the host for an instance. The hosts in tried have refused it.
	choose(ctx context.Context, instance string, f flavor, tried []string) (host string, err error)
	// gone is called after an instance has ended on its host.
	gone(ctx context.Context, instance string) error
}

// load configures a run.
type load struct {
	callers  int
	duration time.Duration
	// changes is the number of local changes per second, which no scheduler makes.
	changes int
	// full is the fraction of all VCPUs that instances use at the start. With churn, once callers
	// have added 2 %, the oldest instance ends for each new one. Without churn, no instance ends,
	// and the run stops when 97 % are used.
	full  float64
	churn bool
	seed  uint64
}

// refusedPause is how long a caller waits after "no valid host" before it asks for the next
// instance.
const refusedPause = 10 * time.Millisecond

// tally is the results of a run.
type tally struct {
	name string
	// placed counts instances, attempted counts choices, and wrong counts the choices that computes
	// refused.
	placed, attempted, wrong int
	// gaveUp counts instances that three hosts refused, refused those for which no host was found.
	// falsely counts the refused ones that some host had room for.
	gaveUp, refused, falsely int
	took                     time.Duration
	times                    []time.Duration
}

// placing is an instance that was placed.
type placing struct {
	instance string
	on       *compute
}

// drive loads a model for a while. Callers place instances one after the other. With churn, the
// oldest instance ends for each new one once the cloud is full enough.
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

// placement is the result for one instance.
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
