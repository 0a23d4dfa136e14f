package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// world is all parts of a run, in a bubble.
type world struct {
	plan     *plan
	began    time.Time
	net      *network
	log      *slog.Logger
	cells    []*simCell
	hosts    []*host
	gateways []*gatewayNode
	// checks go on all the time.
	checks *checks
	// background are the goroutines of faults and callers.
	background sync.WaitGroup

	mu     sync.Mutex
	counts map[string]int
	wrongs []string
	traces []string
	// quiet is when the last fault ended, or zero. active counts the faults in effect. disturbed is
	// when a fault last began or ended.
	quiet     time.Time
	active    int
	disturbed time.Time
	// lost are the hosts whose deltas are lost, by uuid.
	lost map[string]bool
	// aborts counts the aborts that agents sent, by host.
	aborts map[string]int
}

// result is the outcome of a run.
type result struct {
	wrongs, traces, history []string
	counts                  map[string]int
	entries, checks         int
	virtual                 time.Duration
}

// run plays a plan. It must be called in a bubble.
func run(p *plan, o *watched) result {
	w := &world{plan: p, began: time.Now(), counts: map[string]int{}}
	o.begins(w)
	w.net = newNetwork(p.seed, w.wrong)
	w.log = slog.New(&logged{world: w})
	for c := range p.cells {
		w.cells = append(w.cells, w.newCell(c))
	}
	for _, c := range w.cells {
		for h := range p.hostsEach {
			w.hosts = append(w.hosts, w.newHost(c, h))
		}
	}
	for g := range p.gateways {
		w.gateways = append(w.gateways, w.newGatewayNode(g))
	}
	w.checks = newChecks(w)
	w.startAll()
	watch, unwatch := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { defer w.goOn(); w.checks.run(watch) })
	watching.Go(func() { defer w.goOn(); w.watchTables(watch) })
	sleep(2 * time.Second) // the hosts have registered
	for _, f := range p.faults {
		w.later(f.at, func() { w.inject(f) })
	}
	for _, s := range p.stories {
		w.later(s.at, func() { w.play(s) })
	}
	for _, s := range p.churns {
		w.later(s.at, func() { w.churn(s) })
	}
	for _, f := range p.failures {
		w.later(f.at, func() { w.fail(f) })
	}
	sleep(p.lasts)
	w.calm()
	w.background.Wait()
	w.compare()
	w.probe()
	unwatch()
	watching.Wait()
	w.endAll()
	for _, c := range w.cells {
		w.must(c.store.Close())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return result{
		wrongs: w.wrongs, traces: w.traces, counts: w.counts, history: w.checks.history,
		entries: w.checks.entries, checks: w.checks.count, virtual: time.Since(w.began),
	}
}

func (w *world) startAll() {
	for _, c := range w.cells {
		for _, r := range c.replicas {
			r.start()
		}
	}
	for _, h := range w.hosts {
		h.start()
	}
	for _, d := range w.gateways {
		d.start()
	}
}

func (w *world) endAll() {
	for _, d := range w.gateways {
		d.kill()
		d.incarnation.die()
		w.must(d.conn.Close())
	}
	for _, h := range w.hosts {
		h.killAgent()
	}
	w.net.astray.Wait()
	for _, c := range w.cells {
		for _, r := range c.replicas {
			r.stopIncarnation(true)
		}
	}
	w.background.Wait()
}

// calm ends all faults: stopped parts start again, and bytes flow.
func (w *world) calm() {
	w.mu.Lock()
	w.quiet = time.Now()
	w.disturbed = w.quiet
	w.mu.Unlock()
	w.net.heal()
	for _, c := range w.cells {
		for _, r := range c.replicas {
			if run := r.alive(); run != nil {
				run.paused.open()
				run.handle.set(func(h *handle) { h.late, h.fail, h.lose = 0, 0, 0 })
			}
		}
	}
	for _, h := range w.hosts {
		if h.hasFlag() {
			h.change(func() { h.disabled = false })
		}
	}
	w.startAll()
	w.trace("quiet from here on")
}

func (h *host) hasFlag() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.disabled
}

// quietFor returns how long there has been no fault.
func (w *world) quietFor() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quiet.IsZero() {
		return 0
	}
	return time.Since(w.quiet)
}

// over reports whether faults are over.
func (w *world) over() bool { return w.quietFor() > 0 }

// settled is how long after a fault the breakers and probes are as they were.
const settled = 15 * time.Second

// calmSince reports whether no fault has been in effect since t, nor shortly before it.
func (w *world) calmSince(t time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.active == 0 && w.disturbed.Before(t.Add(-settled))
}

// later runs do after d.
func (w *world) later(d time.Duration, do func()) {
	w.background.Go(func() {
		defer w.goOn()
		sleep(d)
		do()
	})
}

func (w *world) hostOf(uuid string) *host {
	i := slices.IndexFunc(w.hosts, func(h *host) bool { return h.uuid == uuid })
	if i < 0 {
		panic("no host " + uuid)
	}
	return w.hosts[i]
}

func (w *world) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

func (w *world) trace(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.traces = append(w.traces, fmt.Sprintf("%10.4f ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// wrong records a violation, once per text.
func (w *world) wrong(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	w.mu.Lock()
	known := slices.ContainsFunc(w.wrongs, func(s string) bool { return s[13:] == what })
	if !known {
		w.wrongs = append(w.wrongs, fmt.Sprintf("at %9.4f ", time.Since(w.began).Seconds())+what)
	}
	w.mu.Unlock()
	if !known {
		w.trace("WRONG: %s", what)
	}
}

// logged collects the parts' logs. An error is a violation, except that no host of a cell is up. So
// is a repair by an audit, since nobody changes a shard by hand, and a refused state, since no host
// reports an invalid one.
type logged struct {
	world *world
	attrs []slog.Attr
}

func (l *logged) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	for _, a := range l.attrs {
		text += " " + a.String()
	}
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	if r.Level >= slog.LevelError && !strings.HasPrefix(r.Message, "no host of the cell is up") || strings.HasPrefix(r.Message, "audit: ") ||
		strings.HasPrefix(r.Message, "the cell refused the host's state") {
		l.world.wrong("a part logged: %s", text)
	} else {
		l.world.trace("  log: %s", text)
	}
	return nil
}

func (l *logged) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logged{world: l.world, attrs: append(slices.Clip(l.attrs), attrs...)}
}

func (l *logged) WithGroup(string) slog.Handler { return l }
