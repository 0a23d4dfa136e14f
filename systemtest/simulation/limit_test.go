package simulation

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// seedLimit is how much real time a seed may take, for each length of its plan: a hundred
// times what it does.
const seedLimit = 3 * time.Minute

// watched is what is known of a run from outside its bubble.
type watched struct {
	// bubble is as goroutines' stacks name it.
	bubble atomic.Pointer[string]
	world  atomic.Pointer[world]
}

var bubbleName = regexp.MustCompile(`synctest bubble \d+`)

func (o *watched) begins(w *world) {
	name := bubbleName.FindString(string(debug.Stack()))
	if name == "" {
		own := make([]byte, 256) // debug.Stack may leave the header out
		name = bubbleName.FindString(string(own[:runtime.Stack(own, false)]))
	}
	o.bubble.Store(&name)
	o.world.Store(w)
}

// within has play run in a bubble, for at most so much real time. A run that takes longer,
// whose goroutines cannot be ended, is left to itself and has failed; so has one all of
// whose goroutines wait for each other.
func within(t *testing.T, limit time.Duration, play func(*testing.T, *watched) result) result {
	o := &watched{}
	done := make(chan result, 1)
	go func() {
		r := result{wrongs: []string{"it ended before it was over"}}
		defer func() {
			if why := recover(); why != nil {
				r = o.stuck(fmt.Sprint(why))
			}
			done <- r
		}()
		synctest.Test(t, func(t *testing.T) { r = play(t, o) })
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case r := <-done:
		return r
	case <-late.C:
		return o.stuck(fmt.Sprintf("it hangs: it is not over after %v of real time", limit))
	}
}

// sleep lets the bubble's time pass.
func sleep(d time.Duration) { time.Sleep(d) }

// stuck is the result of a run that does not come to its end.
func (o *watched) stuck(why string) (r result) {
	r.wrongs = []string{why}
	if w := o.world.Load(); w != nil {
		w.mu.Lock()
		r.wrongs = append(r.wrongs, w.wrongs...)
		r.traces = slices.Clone(w.traces)
		w.mu.Unlock()
	}
	r.traces = append(r.traces, "WRONG: "+why, o.goroutines())
	return r
}

// goroutines gives the stacks of the run's goroutines that do not wait for each other or
// for time, and how many do.
func (o *watched) goroutines() string {
	all := make([]byte, 64<<20)
	all = all[:runtime.Stack(all, true)]
	name := o.bubble.Load()
	var busy []string
	waiting := 0
	for text := range strings.SplitSeq(string(all), "\n\n") {
		head, _, _ := strings.Cut(text, "\n")
		switch {
		case name == nil || !strings.Contains(head, *name+"]") && !strings.Contains(head, *name+","):
		case strings.Contains(head, "(durable)"):
			waiting++
		default:
			busy = append(busy, text)
		}
	}
	return fmt.Sprintf("%d of its goroutines wait for each other or for time; the others:\n%s", waiting, strings.Join(busy, "\n\n"))
}

// A run that hangs is given up, and says where it is.
func TestARunThatHangsIsGivenUp(t *testing.T) {
	free := make(chan struct{}) // not of the bubble: who waits for it holds up the bubble's time
	defer close(free)
	r := within(t, 50*time.Millisecond, func(_ *testing.T, o *watched) result {
		o.begins(&world{traces: []string{"what came before"}})
		go sleep(time.Hour)
		standsStill(free)
		return result{}
	})
	told := strings.Join(append(r.wrongs, traceOf(r)), "\n")
	for _, want := range []string{"it hangs", "what came before", "standsStill", "of its goroutines wait"} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not in what is told:\n%s", want, told)
		}
	}
}

func standsStill(until <-chan struct{}) { <-until }

// So is one whose goroutines wait for each other.
func TestARunThatIsDeadlockedHasFailed(t *testing.T) {
	r := within(t, time.Minute, func(*testing.T, *watched) result {
		waitsForever()
		return result{}
	})
	if !strings.Contains(strings.Join(r.wrongs, "\n"), "deadlock") {
		t.Errorf("the result is %v", r.wrongs)
	}
}

func waitsForever() { select {} }
