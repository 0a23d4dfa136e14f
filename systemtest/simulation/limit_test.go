package simulation

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// seedLimit is the real time that a seed may take per unit of its plan's length. It is a hundred
// times the usual time.
const seedLimit = 3 * time.Minute

// watched gives access to a run from outside its bubble.
type watched struct {
	// bubble is the bubble's name in stack traces.
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

// within runs play in a bubble, for at most limit of real time. A run that takes longer has failed;
// its goroutines cannot be ended and stay. A run also fails if all of its goroutines wait for each
// other, or if it panics.
func within(t *testing.T, limit time.Duration, play func(*testing.T, *watched) result) result {
	o := &watched{}
	done := make(chan result, 1)
	go func() {
		r := result{wrongs: []string{"it ended before it was over"}}
		panicked := false
		defer func() {
			if why := recover(); why != nil && !panicked { // goroutines that a panic leaves behind wait for ever
				r = o.stuck(fmt.Sprint(why))
			}
			done <- r
		}()
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if why := recover(); why != nil {
					r, panicked = o.stuck(panicText(why)), true
				}
			}()
			r = play(t, o)
		})
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

// panicText is a panic and where it was, in a function that recovers.
func panicText(why any) string { return fmt.Sprintf("panic: %v\n%s", why, debug.Stack()) }

// goOn, when deferred, records a panic of the goroutine. The run continues.
func (w *world) goOn() {
	if why := recover(); why != nil {
		w.wrong("%s", panicText(why))
	}
}

// named runs do under a label with the seed. A panic that nobody recovers ends the process, and its
// trace then shows the seed.
func named(seed uint64, do func()) {
	pprof.Do(context.Background(), pprof.Labels("seed", strconv.FormatUint(seed, 10)), func(context.Context) { do() })
}

// sleep waits on the bubble's clock.
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

// goroutines returns the stacks of the run's goroutines that neither wait for each other nor for
// time. It counts the others.
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

// A run that hangs is given up, and its result shows where it hangs.
func TestARunThatHangsIsGivenUp(t *testing.T) {
	free := make(chan struct{}) // not of the bubble: waiting for it stops the bubble's clock
	defer close(free)
	r := within(t, 50*time.Millisecond, func(_ *testing.T, o *watched) result {
		o.begins(&world{traces: []string{"what came before"}})
		go sleep(time.Hour)
		standsStill(free)
		return result{}
	})
	delivered := strings.Join(append(r.wrongs, traceOf(r)), "\n")
	for _, want := range []string{"it hangs", "what came before", "standsStill", "of its goroutines wait"} {
		if !strings.Contains(delivered, want) {
			t.Errorf("%q is not in what is told:\n%s", want, delivered)
		}
	}
}

func standsStill(until <-chan struct{}) { <-until }

// A run whose goroutines all wait for each other fails too.
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

// A panic in a run fails the run, and the result shows where it was. Other runs continue.
func TestARunThatPanicsHasFailed(t *testing.T) {
	for name, play := range map[string]func(*world){
		"in the main goroutine": func(w *world) { w.later(time.Hour, func() {}); panics() },
		"in a fault's":          func(w *world) { w.later(1, panics); w.background.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			r := within(t, seedLimit, func(_ *testing.T, o *watched) result {
				w := &world{}
				o.begins(w)
				play(w)
				return result{wrongs: w.wrongs, traces: w.traces}
			})
			for _, want := range []string{"panic: a claim of nobody", "simulation.panics"} {
				if delivered := strings.Join(r.wrongs, "\n"); !strings.Contains(delivered, want) {
					t.Errorf("%q is not in what is told:\n%s", want, delivered)
				}
			}
		})
	}
}

func panics() { panic("a claim of nobody") }

// A panic in a goroutine of a part cannot be recovered. It ends the process, and the trace names
// the seed.
func TestAPanicOfAPartNamesItsSeed(t *testing.T) {
	const child = "CELLGATE_SIM_PANICS"
	if os.Getenv(child) != "" {
		named(1353, func() {
			within(t, seedLimit, func(*testing.T, *watched) result {
				go panics()
				waitsForever()
				return result{}
			})
		})
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAPanicOfAPartNamesItsSeed$")
	cmd.Env = append(os.Environ(), child+"=1")
	delivered, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("the process went on")
	}
	head, _, _ := strings.Cut(string(delivered), "panic(")
	if !strings.Contains(head, "a claim of nobody") || !strings.Contains(head, `"seed": "1353"`) {
		t.Errorf("told is\n%s", delivered)
	}
}
