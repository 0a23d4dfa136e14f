package cell

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// maxReaders is how many gateways are watched; others are not.
	maxReaders = 64
	// keepReader is how long a gateway is remembered that is not heard, so that one that comes
	// and goes is told of once; and how long a reading counts as the newest that nobody has.
	keepReader = 10 * time.Minute
	// behindFor is how long a gateway's rows must be too old before it counts as behind.
	behindFor = 10 * time.Second
)

// novaReaders know how new the rows are that each gateway reads of Nova's tables, as some may read
// copies of the database that are behind, and what each asks of Nova's services.
//
//	up to date   its rows are less than most older than the newest that any gateway has read
//	behind       they have been older for behindFor, until they have not been for caughtUpFor
//
// It is this replica's memory, of gateways that report to it.
type novaReaders struct {
	most, caughtUpFor time.Duration
	// byName are the gateways as people know them: one that is started anew is the same.
	byName map[string]*novaReader
	newest newestReading
	// told are the values that were told of last in which they differ; "" for none.
	told string
}

// newestReading is the newest time in the rows of any gateway, which was heard to have it last.
type newestReading struct {
	to, heard time.Time
	by        string
}

type novaReader struct {
	name string
	// gateway is its life, before the one before that.
	gateway, before string
	heard           time.Time
	// readTo is the newest time in its rows; zero: not known.
	readTo     time.Time
	unreadable string
	// required and downTime are what it asks for; a downTime of zero: not known.
	required int32
	downTime time.Duration
	// over and under are since when its rows are too old, and are not; one of them is zero.
	over, under time.Time
	// behind is since when it counts as behind; zero when it does not.
	behind time.Time
}

// readerNews is that a gateway counts as behind, or does so no more.
type readerNews struct {
	gateway, newestBy string
	// since is when its rows began to be too old, lag by how much they are now.
	since          time.Time
	lag            time.Duration
	readTo, newest time.Time
	behind, gone   bool
}

// newNovaReaders: Nova has service_down_time be two and a half times what is between two
// heartbeats, so half of it is more than a copy that is not behind ever lacks.
func newNovaReaders(downTime time.Duration) novaReaders {
	return novaReaders{most: downTime / 2, caughtUpFor: 2 * downTime, byName: map[string]*novaReader{}}
}

// take takes what a gateway says of its rows.
func (w *novaReaders) take(r *legacyReport, now time.Time) []readerNews {
	news := w.forget(now)
	g := w.of(r)
	if g == nil {
		return news
	}
	g.heard, g.unreadable, g.required, g.downTime = now, r.unreadable, r.required, r.downTime
	if g.unreadable != "" {
		// It says so, and answers from what it has for some seconds.
		return news
	}
	g.readTo = r.readTo
	if now.Sub(w.newest.heard) > keepReader {
		w.newest = newestReading{}
		for _, other := range w.byName {
			if now.Sub(other.heard) <= keepReports && other.readTo.After(w.newest.to) {
				w.newest = newestReading{other.readTo, other.heard, other.name}
			}
		}
	}
	if !g.readTo.IsZero() && !g.readTo.Before(w.newest.to) {
		w.newest = newestReading{g.readTo, now, g.name}
	}
	return append(news, w.judge(g, now)...)
}

// of gives the reader of a report; nil when there are too many.
func (w *novaReaders) of(r *legacyReport) *novaReader {
	name := r.said()
	if g := w.byName[name]; g != nil && g.gateway != r.gateway {
		if g.before != r.gateway {
			g.before, g.gateway = g.gateway, r.gateway
			return g
		}
		// The one from before is there still: two have one name.
		name += ", " + r.gateway
	}
	g := w.byName[name]
	if g == nil && len(w.byName) < maxReaders {
		g = &novaReader{name: name, gateway: r.gateway}
		w.byName[name] = g
	}
	return g
}

// judge says whether a gateway that was heard counts as behind.
func (w *novaReaders) judge(g *novaReader, now time.Time) []readerNews {
	if w.lag(g) > w.most {
		g.under = time.Time{}
		if g.over.IsZero() {
			g.over = now
		}
	} else {
		g.over = time.Time{}
		if g.under.IsZero() {
			g.under = now
		}
	}
	was := g.behind
	switch {
	case was.IsZero() && !g.over.IsZero() && now.Sub(g.over) >= behindFor:
		g.behind = g.over
		return []readerNews{w.news(g, g.behind)}
	case !was.IsZero() && !g.under.IsZero() && now.Sub(g.under) >= w.caughtUpFor:
		g.behind = time.Time{}
		return []readerNews{w.news(g, was)}
	}
	return nil
}

func (w *novaReaders) news(g *novaReader, since time.Time) readerNews {
	return readerNews{
		gateway: g.name, newestBy: w.newest.by, since: since, lag: w.lag(g), readTo: g.readTo, newest: w.newest.to, behind: !g.behind.IsZero(),
	}
}

// lag is how much older than the newest the rows of a gateway are; 0 when it is not known.
func (w *novaReaders) lag(g *novaReader) time.Duration {
	if g.readTo.IsZero() {
		return 0
	}
	return max(0, w.newest.to.Sub(g.readTo))
}

// forget drops gateways that were not heard for too long.
func (w *novaReaders) forget(now time.Time) (news []readerNews) {
	for name, g := range w.byName {
		if now.Sub(g.heard) <= keepReader {
			continue
		}
		delete(w.byName, name)
		if !g.behind.IsZero() {
			n := w.news(g, g.behind)
			n.behind, n.gone = false, true
			news = append(news, n)
		}
	}
	return news
}

// heard gives the gateways that are heard, the one furthest behind first.
func (w *novaReaders) heard(now time.Time) []*novaReader {
	var list []*novaReader
	for _, g := range w.byName {
		if now.Sub(g.heard) <= keepReports {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b *novaReader) int {
		if of := func(g *novaReader) int {
			if g.behind.IsZero() {
				return 1
			}
			return 0
		}; of(a) != of(b) {
			return of(a) - of(b)
		}
		return cmp.Or(cmp.Compare(w.lag(b), w.lag(a)), cmp.Compare(a.name, b.name))
	})
	return list
}

// readBy takes what a report says of how new its rows are, and what its gateway asks for.
func (c *Cell) readBy(r *legacyReport) {
	k := c.gate
	k.mu.Lock()
	behind := k.readers.take(r, k.now())
	differ, is := k.readers.differing()
	k.mu.Unlock()
	c.tellReaders(behind)
	if is {
		c.tellDispute(differ)
	}
}

// behind counts the gateways that are behind, and gives the greatest lag of any.
func (k *gatekeeper) behind() (n int, lag time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range k.readers.heard(k.now()) {
		if g.unreadable == "" {
			lag = max(lag, k.readers.lag(g))
		}
		if !g.behind.IsZero() {
			n++
		}
	}
	return n, lag
}

// readersMessage lists the gateways that are heard.
func (k *gatekeeper) readersMessage() []*cellgatev1.GateReader {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	var list []*cellgatev1.GateReader
	for _, g := range k.readers.heard(now) {
		m := &cellgatev1.GateReader{Gateway: g.name, Unreadable: g.unreadable, Imports: g.gateway == k.importer && now.Before(k.until), RequiredVersion: proto.Int32(g.required)}
		if g.downTime > 0 {
			m.ServiceDownTime = durationpb.New(g.downTime)
		}
		if !g.readTo.IsZero() {
			m.ReadTo, m.Lag = timestamppb.New(g.readTo), durationpb.New(k.readers.lag(g))
		}
		if !g.behind.IsZero() {
			m.BehindSince = timestamppb.New(g.behind)
		}
		list = append(list, m)
	}
	return list
}

// tellReaders tells, for the audit, which gateways are behind, and are no more.
func (c *Cell) tellReaders(all []readerNews) {
	for _, n := range all {
		told := []any{"gateway", n.gateway, "since", n.since.UTC(), "by", n.lag, "read_to", n.readTo.UTC(), "newest", n.newest.UTC(), "newest_by", n.newestBy}
		switch {
		case n.behind:
			c.log.Warn("audit: a gateway reads a copy of Nova's tables that is behind", told...)
		case n.gone:
			c.log.Info("audit: a gateway that read a copy of Nova's tables that is behind is not heard any more", told...)
		default:
			c.log.Info("audit: a gateway that read a copy of Nova's tables that is behind has caught up", told...)
		}
	}
}
