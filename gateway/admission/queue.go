package admission

import (
	"context"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"cellgate/internal/fault"
)

const (
	// leastLimit, firstLimit and mostLimit bound how many calls of a queue run at once. Noisy
	// measurements do not take the limit below leastLimit, for two reasons. Cells answer
	// several calls of one gateway with one batch and one commit; and calls that wait for a
	// hung cell must not hold up the others.
	leastLimit, firstLimit, mostLimit = 32, 64, 256
	// measuredOver is the shortest time between two changes of the limit, measuredCalls the
	// least number of calls.
	measuredOver  = 250 * time.Millisecond
	measuredCalls = 50
	// usualOver is about how many calls the moving mean of the usual time covers.
	usualOver = 16
	// fastestOver is the length of a window for the fastest call; a duration counts for at
	// most two windows.
	fastestOver = 500 * time.Millisecond
	// fewCalls is the least number of calls from which the fastest is known.
	fewCalls = 8
	// retryAfter is how long a refused caller is told to wait.
	retryAfter = time.Second
)

// Caller is a caller's name, and a part of it, such as a project. Callers have equal shares
// of a queue, and the parts of a caller equal shares of the caller's.
type Caller struct{ Name, Part string }

// Queue admits calls of one kind. Safe for concurrent use.
type Queue struct {
	what string
	most int
	// fixed: the limit does not adapt, and calls are not refused for their deadlines.
	fixed bool
	// full is the error of every call without a place; it is made once, so that refusing is cheap.
	full    *fault.Error
	limiter adaptivelimiter.AdaptiveLimiter[any]

	mu sync.Mutex
	// taken counts the places taken, by calls that wait or run. callers has them by caller,
	// without callers that have none.
	taken   int
	callers map[string]*places
	refused uint64
	// usual is how long calls take, a moving mean; 0 if not known. now counts the calls in
	// the present window, since since; previous those in the window before.
	usual         time.Duration
	since         time.Time
	now, previous window
}

// window counts the calls that ended in a period, with the shortest time that one took.
type window struct {
	calls   int
	fastest time.Duration
}

// places are the places of a caller, and of each of its parts.
type places struct {
	taken int
	parts map[string]int
}

// NewQueue makes a queue in which at most most calls wait or run. what names the calls in
// errors.
func NewQueue(what string, most int) *Queue {
	return newQueue(what, most, false)
}

// NewFixedQueue makes a queue whose limit does not adapt, and in which most calls may wait or
// run, however near their deadlines are. It is for cheap calls that a flood of other calls
// slows down, and that free resources.
func NewFixedQueue(what string, most int) *Queue {
	return newQueue(what, most, true)
}

func newQueue(what string, most int, fixed bool) *Queue {
	limit := uint(max(1, min(mostLimit, most)))
	least, first := uint(leastLimit), uint(firstLimit)
	if fixed {
		least, first = limit, limit
	}
	return &Queue{
		what: what, most: most, fixed: fixed, callers: map[string]*places{},
		full: &fault.Error{Kind: fault.Overloaded, Message: "too many " + what + " are under way already", RetryAfter: retryAfter},
		limiter: adaptivelimiter.NewBuilder[any]().
			WithLimits(min(least, limit), limit, min(first, limit)).
			WithRecentWindow(measuredOver, 30*time.Second, measuredCalls).
			Build(),
	}
}

// Enter gives a call a place, which leave gives back and must be called once; or it refuses
// the call as OVERLOADED, with the time after which it may come again. A zero deadline means
// none.
func (l *Queue) Enter(c Caller, deadline time.Time) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if err := l.hopeless(deadline, now, l.wait()); err != nil {
		l.refused++
		return nil, err
	}
	if !l.admits(c) {
		l.refused++
		return nil, l.full
	}
	l.taken++
	of := l.callers[c.Name]
	if of == nil {
		of = &places{parts: map[string]int{}}
		l.callers[c.Name] = of
	}
	of.taken++
	of.parts[c.Part]++
	return func() { l.leave(c) }, nil
}

func (l *Queue) leave(c Caller) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken--
	of := l.callers[c.Name]
	of.taken--
	if of.parts[c.Part]--; of.parts[c.Part] == 0 {
		delete(of.parts, c.Part)
	}
	if of.taken == 0 {
		delete(l.callers, c.Name)
	}
}

// admits reports whether a caller gets a place. Up to room, every caller does. Half as much
// again is for parts of callers with less than their fair share, and as much again for
// callers with less than theirs. So a caller with few calls is served beside one that floods.
// It needs mu.
func (l *Queue) admits(c Caller) bool {
	room := l.room()
	if l.taken >= l.most || l.taken >= 2*room {
		return false
	}
	if l.taken < room {
		return true
	}
	of, callers := l.callers[c.Name], len(l.callers)
	if of == nil {
		return true // the caller has none, and its share is one at least
	}
	share := max(1, room/callers)
	if of.taken < share {
		return true
	}
	parts, mine := len(of.parts), of.parts[c.Part]
	if mine == 0 {
		parts++
	}
	return l.taken < room+room/2 && mine < max(1, share/parts)
}

// room is how many calls may wait or run: as many wait as run, so that none waits longer than
// a call takes. In a fixed queue it is half of most.
func (l *Queue) room() int {
	if l.fixed {
		return max(1, l.most/2)
	}
	return 2 * l.limiter.Limit()
}

// wait estimates how long a new call waits for its turn. It needs mu.
func (l *Queue) wait() time.Duration {
	limit := l.limiter.Limit()
	return time.Duration(max(0, l.taken-limit)) * l.usual / time.Duration(limit)
}

// hopeless refuses a call that cannot meet its deadline: it waits for its turn, and then
// takes at least as long as the fastest recent call. Without recent calls, and in a fixed
// queue, it refuses nothing. It needs mu.
func (l *Queue) hopeless(deadline, now time.Time, wait time.Duration) error {
	if l.fixed || deadline.IsZero() || now.Sub(l.since) >= 2*fastestOver || l.now.calls+l.previous.calls < fewCalls {
		return nil
	}
	fastest := l.now.fastest
	if l.previous.calls > 0 {
		fastest = min(fastest, l.previous.fastest)
	}
	left := deadline.Sub(now)
	if wait+fastest <= left {
		return nil
	}
	e := fault.New(fault.Overloaded, "the deadline is in %v, and %s take at least %v now", left.Round(time.Millisecond), l.what, (wait + fastest).Round(time.Millisecond))
	e.RetryAfter = retryAfter
	return e
}

// Begin waits for the turn of a call that has a place. The caller must call end once, when the call has ended.
// answered says whether the call was answered; the time of any other call is not measured. Begin refuses a call that
// can no longer meet its deadline.
func (l *Queue) Begin(ctx context.Context) (end func(answered bool), err error) {
	permit, err := l.limiter.AcquirePermit(ctx)
	if err != nil {
		return nil, err // ctx's error
	}
	began := time.Now()
	deadline, _ := ctx.Deadline()
	l.mu.Lock()
	if err = l.hopeless(deadline, began, 0); err != nil {
		l.refused++
	}
	l.mu.Unlock()
	if err != nil {
		permit.Drop()
		return nil, err
	}
	return func(answered bool) {
		if !answered {
			permit.Drop()
			return
		}
		permit.Record()
		l.learn(began)
	}, nil
}

// learn records a call that lasted from began until now.
func (l *Queue) learn(began time.Time) {
	now := time.Now()
	took := max(1, now.Sub(began))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.usual == 0 {
		l.usual = took
	}
	l.usual += (took - l.usual) / usualOver
	if age := now.Sub(l.since); age >= fastestOver {
		l.previous, l.now, l.since = l.now, window{}, now
		if age >= 2*fastestOver {
			l.previous = window{}
		}
	}
	if l.now.calls++; l.now.calls == 1 || took < l.now.fastest {
		l.now.fastest = took
	}
}

// State is the state of a queue, for metrics.
type State struct {
	// Limit is how many calls may run at once, Taken how many wait or run.
	Limit, Taken int
	// Refused counts the calls that were refused.
	Refused uint64
}

// State gives the queue's state.
func (l *Queue) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{Limit: l.limiter.Limit(), Taken: l.taken, Refused: l.refused}
}
