package novadb

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// tables are a cell's services: each beats every 10 s by its own clock, conductor or nova-compute.
type tables struct {
	began time.Time
	skew  []time.Duration
	// computes are the last so many of them; dead is when the last one had its last heartbeat, zero: it
	// lives.
	computes int
	dead     time.Time
}

// read gives what a copy has whose rows are of a moment, by a server whose clock is right.
func (c *tables) read(at, moment time.Time) *Snapshot {
	x := Compose("cell1", "", at, time.Minute, nil, nil)
	for i, skew := range c.skew {
		phase := time.Duration(i) * 3 * time.Second
		until := moment
		if i == len(c.skew)-1 && !c.dead.IsZero() && until.After(c.dead) {
			until = c.dead
		}
		seen := c.began.Add(until.Sub(c.began).Truncate(10*time.Second) + phase)
		if seen.After(until) {
			seen = seen.Add(-10 * time.Second)
		}
		seen = seen.Add(skew).Truncate(time.Second)
		if !seen.After(at.Add(time.Minute)) {
			x.Heartbeat = newest(x.Heartbeat, seen)
		}
		if i < len(c.skew)-c.computes {
			x.Others = append(x.Others, Beat{ID: int64(i + 1), Seen: seen})
			continue
		}
		x.Services = append(x.Services, Service{ID: int64(i + 1), Host: fmt.Sprint("host", i), LastSeenUp: seen})
	}
	return x
}

// wordOf is what a snapshot has a gateway tell of a nova-compute.
func wordOf(x *Snapshot, s *Service) string {
	switch {
	case x.Silent(time.Minute):
		return "silent copy"
	case x.Unsure(x.At, time.Minute) != "":
		return "unsure"
	case x.Up(s, x.At, time.Minute):
		return "up"
	}
	return "down"
}

// watching reads a copy every two seconds from one moment of the cell to another, and gives the words
// of one of its services, each once, as they come.
func (c *tables) watching(w *Watch, from, to time.Duration, moment func(time.Time) time.Time, service func(*Snapshot) *Service) string {
	var words []string
	for d := from; d < to; d += 2 * time.Second {
		at := c.began.Add(d)
		x := w.Judge(c.read(at, moment(at)), at, time.Minute)
		if word := wordOf(x, service(x)); len(words) == 0 || words[len(words)-1] != word {
			words = append(words, word)
		}
	}
	return strings.Join(words, ", ")
}

func firstOf(x *Snapshot) *Service { return &x.Services[0] }
func lastOf(x *Snapshot) *Service  { return &x.Services[len(x.Services)-1] }

// What is told of living services, and of one that dies, by clocks and copies. No living one is ever told
// to be down, and what was told of all is told again when the copy is back.
func TestWhatIsToldOfServicesByClocksAndCopies(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const up, all, nothing, later, atLast = "up", "up, silent copy", "silent copy", "unsure, up", "unsure, silent copy"
	cells := []struct {
		name           string
		others, living int
		skewed         int // which one's clock is off
	}{
		{"one nova-compute", 0, 1, 0},
		{"a conductor, whose clock it is, and a nova-compute", 1, 1, 0},
		{"a conductor, and a nova-compute whose clock it is", 1, 1, 1},
		{"two conductors, whose one clock it is, and five", 2, 5, 0},
		{"two conductors, and five whose one clock it is", 2, 5, 2},
	}
	type told struct{ live, lagging, far, stopped string }
	// want has, for each cell, what is told of a living service: where the copy is live, 40 s behind,
	// 90 s behind, and when it stops.
	for _, c := range []struct {
		skew time.Duration
		want [5]told
	}{
		{-40 * time.Second, [5]told{
			{up, nothing, nothing, all}, // alone: its copy, or its clock
			{up, up, nothing, all},
			{up, atLast, nothing, all},
			{up, up, nothing, all},
			{up, later, nothing, all},
		}},
		{0, [5]told{
			{up, up, nothing, all}, {up, up, nothing, all}, {up, up, nothing, all}, {up, up, nothing, all}, {up, up, nothing, all},
		}},
		{20 * time.Second, [5]told{
			{up, up, nothing, all}, {up, up, nothing, all}, {up, up, nothing, all}, {up, up, nothing, all}, {up, up, nothing, all},
		}},
		{50 * time.Second, [5]told{
			{up, up, up, all}, // alone: as much ahead as behind
			{up, up, atLast, all},
			{up, up, up, all},
			{up, up, atLast, all},
			{up, up, atLast, all},
		}},
	} {
		for n, cell := range cells {
			fleet := func() *tables {
				f := &tables{began: began, skew: make([]time.Duration, cell.others+cell.living), computes: cell.living}
				f.skew[cell.skewed] = c.skew
				return f
			}
			live := func(at time.Time) time.Time { return at }
			behind := func(by time.Duration) func(time.Time) time.Time {
				return func(at time.Time) time.Time { return at.Add(-by) }
			}
			stops := began.Add(10 * time.Minute)
			stopped := func(at time.Time) time.Time { return earlier(at, stops) }
			name := fmt.Sprintf("%v %s", c.skew, cell.name)
			for _, of := range []func(*Snapshot) *Service{firstOf, lastOf} {
				check := func(what, got, want string) {
					t.Helper()
					if got != want {
						t.Errorf("%s: %s: %q, want %q", name, what, got, want)
					}
				}
				want := c.want[n]
				check("live", fleet().watching(&Watch{}, 5*time.Minute, 15*time.Minute, live, of), want.live)
				check("lagging", fleet().watching(&Watch{}, 5*time.Minute, 15*time.Minute, behind(40*time.Second), of), want.lagging)
				check("far behind", fleet().watching(&Watch{}, 5*time.Minute, 15*time.Minute, behind(90*time.Second), of), want.far)
				w, f := &Watch{}, fleet()
				check("stopped", f.watching(w, 5*time.Minute, 14*time.Minute, stopped, of), want.stopped)
				w, f = &Watch{}, fleet()
				check("stopped for less than service_down_time", f.watching(w, 5*time.Minute, 10*time.Minute+50*time.Second, stopped, of), up)
				check("stopped for little more", f.watching(w, 10*time.Minute+50*time.Second, 10*time.Minute+74*time.Second, stopped, of), all)
				check("back again", f.watching(w, 14*time.Minute, 20*time.Minute, live, of), up)
			}
		}
	}
}

// One that dies is told to be down as Nova has it, no later than the next heartbeat of another; in a copy
// that is behind so much later. Where none but it beats nobody knows.
func TestADeadServiceIsToldByClocksAndCopies(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	dies := began.Add(10 * time.Minute)
	for _, skew := range []time.Duration{-40 * time.Second, 0, 20 * time.Second, 50 * time.Second} {
		for _, c := range []struct {
			name             string
			skew             []time.Duration
			computes         int
			behind           time.Duration
			earliest, latest time.Duration // 0: never
		}{
			{"alone", []time.Duration{skew}, 1, 0, 0, 0},
			// Of a cell's only one, or of most, the age that heartbeats have when they come is not silence.
			{"beside a conductor", []time.Duration{0, skew}, 1, 0, 55*time.Second + max(0, skew), 72*time.Second + max(0, skew)},
			{"among many whose clocks are as far off", []time.Duration{0, skew, skew, skew, skew}, 4, 0, 55*time.Second + max(0, skew), 72*time.Second + max(0, skew)},
			{"beside a conductor whose clock is off", []time.Duration{skew, 0}, 1, 0, 60 * time.Second, 72 * time.Second},
			{"among many", []time.Duration{0, 0, 0, 0, skew}, 4, 0, 60*time.Second + skew, 72*time.Second + skew},
			{"among many, of which one's clock is off", []time.Duration{0, skew, 0, 0, 0}, 4, 0, 60 * time.Second, 72 * time.Second},
			{"among many, in a copy that is behind", []time.Duration{0, skew, 0, 0, 0}, 4, 40 * time.Second, 85 * time.Second, 112 * time.Second},
		} {
			f := &tables{began: began, skew: c.skew, computes: c.computes, dead: dies}
			w, down := &Watch{}, time.Duration(0)
			last := f.read(dies.Add(time.Hour), dies).Services[c.computes-1].LastSeenUp.Add(-c.skew[len(c.skew)-1])
			for at := dies.Add(-2 * time.Minute); at.Before(dies.Add(5 * time.Minute)); at = at.Add(2 * time.Second) {
				x := w.Judge(f.read(at, at.Add(-c.behind)), at, time.Minute)
				for i := range x.Services[:c.computes-1] {
					if at.Before(dies.Add(-time.Minute)) {
						break // it has just started
					}
					if word := wordOf(x, &x.Services[i]); word != "up" {
						t.Errorf("%v, %s: after %v one that lives is told as %q", skew, c.name, at.Sub(dies), word)
					}
				}
				if down == 0 && wordOf(x, lastOf(x)) == "down" {
					down = at.Sub(last)
				}
			}
			if down < c.earliest || down > c.latest {
				t.Errorf("%v, %s: told %v after its last heartbeat, want %v to %v", skew, c.name, down, c.earliest, c.latest)
			}
		}
	}
}

// A reader that starts on a copy that stopped tells of nobody that he is down, though one clock that is
// ahead makes it look new; on a live one it tells so within one heartbeat.
func TestAReaderThatStartsTellsWhatItHasSeen(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	fleet := func(dead time.Duration) *tables {
		f := &tables{began: began, skew: []time.Duration{50 * time.Second, 0, 0, 0, 0}, computes: 4}
		if dead > 0 {
			f.dead = began.Add(dead)
		}
		return f
	}
	live := func(at time.Time) time.Time { return at }
	stopped := func(at time.Time) time.Time { return earlier(at, began.Add(10*time.Minute)) }
	for _, c := range []struct {
		name   string
		dead   time.Duration
		from   time.Duration
		moment func(time.Time) time.Time
		of     func(*Snapshot) *Service
		want   string
	}{
		{"a copy that stopped", 0, 11*time.Minute + 5*time.Second, stopped, lastOf, "unsure, silent copy"},
		{"a copy that stopped long ago", 0, 15 * time.Minute, stopped, lastOf, "silent copy"},
		{"a live one with a dead service", 7 * time.Minute, 10 * time.Minute, live, lastOf, "unsure, down"},
		{"the others of that", 7 * time.Minute, 10 * time.Minute, live, firstOf, "unsure, up"},
		{"a live one with a service that is dead for long", time.Minute, 10 * time.Minute, live, lastOf, "down"},
		{"the others of that", time.Minute, 10 * time.Minute, live, firstOf, "up"},
		{"a live one", 0, 10 * time.Minute, live, firstOf, "up"},
		{"one that is half a minute behind", 0, 10 * time.Minute, func(at time.Time) time.Time { return at.Add(-30 * time.Second) }, firstOf, "up"},
	} {
		if got := fleet(c.dead).watching(&Watch{}, c.from, c.from+5*time.Minute, c.moment, c.of); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	f, w := fleet(7*time.Minute), &Watch{}
	if got := f.watching(w, 10*time.Minute, 10*time.Minute+12*time.Second, live, lastOf); got != "unsure, down" {
		t.Errorf("in twelve seconds it tells %q", got)
	}
}

// An address that leads to several servers by turns, one of which has stopped, or is behind: what that
// one has says of nobody that he is down. So does a reading after a pause in which replication stopped.
func TestServersByTurnsTellNobodyDown(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stops := began.Add(10 * time.Minute)
	for _, skew := range []time.Duration{-40 * time.Second, 0, 20 * time.Second, 50 * time.Second} {
		for _, of := range []int{0, 2} { // a conductor's clock, a nova-compute's
			f := &tables{began: began, skew: make([]time.Duration, 6), computes: 4}
			f.skew[of] = skew
			for name, other := range map[string]func(time.Time) time.Time{
				"stopped": func(at time.Time) time.Time { return earlier(at, stops) },
				"behind":  func(at time.Time) time.Time { return at.Add(-55 * time.Second) },
			} {
				for _, turns := range []int{1, 5, 13, 20, 60} {
					w, up := &Watch{}, 0
					for n := range 300 {
						at := began.Add(9*time.Minute + time.Duration(n)*2*time.Second)
						moment := at
						if n/turns%2 == 1 && at.After(stops) {
							moment = other(at)
						}
						x := w.Judge(f.read(at, moment), at, time.Minute)
						for i := range x.Services {
							switch wordOf(x, &x.Services[i]) {
							case "down":
								t.Errorf("%v of %d, turns of %d, one %s: %s is told down at %v", skew, of, turns, name, x.Services[i].Host, at.Sub(began))
							case "up":
								up++
							}
						}
					}
					if up < 300 {
						t.Errorf("%v of %d, turns of %d, one %s: up is told %d times", skew, of, turns, name, up)
					}
				}
			}
			w := &Watch{}
			for n := range 30 {
				at := stops.Add(time.Duration(n-30) * 2 * time.Second)
				w.Judge(f.read(at, at), at, time.Minute)
			}
			for _, later := range []time.Duration{70 * time.Second, 72 * time.Second, 90 * time.Second} {
				at := stops.Add(later)
				x := w.Judge(f.read(at, stops.Add(5*time.Second)), at, time.Minute)
				for i := range x.Services {
					if word := wordOf(x, &x.Services[i]); word == "down" {
						t.Errorf("%v of %d, %v after it stopped, while it was not read: %s is told down", skew, of, later, x.Services[i].Host)
					}
				}
			}
		}
	}
}

// Heartbeats of nova-compute are dated by the conductors that write them, by turns: where one's clock is
// off they go back and forth, and that is no other server.
func TestClocksOfConductorsAreNoOtherServer(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, skew := range []time.Duration{-40 * time.Second, 20 * time.Second, 50 * time.Second} {
		for computes := 1; computes < 8; computes++ {
			w := &Watch{}
			for d := time.Duration(0); d < 20*time.Minute; d += 2 * time.Second {
				at := began.Add(d)
				x := Compose("cell1", "", at, time.Minute, nil, []Service{{ID: 99, LastSeenUp: began.Add(-time.Hour)}})
				for i := range computes + 2 {
					phase := time.Duration(i) * 3 * time.Second
					beats := (d + time.Minute - phase) / (10 * time.Second)
					seen := began.Add(beats*10*time.Second - time.Minute + phase)
					if by := (int(beats)*7/3 + i*i) % 2; i == 0 || i > 1 && by == 0 {
						seen = seen.Add(skew)
					}
					if x.Heartbeat = newest(x.Heartbeat, seen); i < 2 {
						x.Others = append(x.Others, Beat{ID: int64(i + 1), Seen: seen})
					} else {
						x.Services = append(x.Services, Service{ID: int64(i + 1), LastSeenUp: seen})
					}
				}
				x = w.Judge(x, at, time.Minute)
				for i := range x.Services {
					want := "up"
					if i == 0 {
						want = "down"
					}
					if word := wordOf(x, &x.Services[i]); word != want && d > 30*time.Second {
						t.Errorf("%v, of %d: after %v %d is told as %q", skew, computes, d, x.Services[i].ID, word)
					}
				}
			}
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Nobody writes for a while, and then a conductor does, before any nova-compute: these have
// service_down_time to beat again, but for one that had died before. Nothing is spared where
// writing went on while nothing was read.
func TestAfterATimeInWhichNobodyWroteServicesHaveTheirTimeToBeatAgain(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	second := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second) }
	// beats gives what a heartbeat every ten seconds has left at a moment, with none between from and to.
	beats := func(at, from, to int) time.Time {
		last := at - at%10
		for last >= from && last < to {
			last -= 10
		}
		return second(last)
	}
	for name, c := range map[string]struct {
		unread bool
		// comes is when the nova-computes beat again.
		conductor, comes, until int
		want                    string
	}{
		"the computes beat again":         {false, 280, 320, 500, "up down"},
		"and in the end one does not":     {false, 280, 0, 500, "down down"},
		"while it is not over yet":        {false, 280, 0, 338, "up down"},
		"only nothing was read":           {true, 0, 0, 300, "down down"},
		"and nothing was read, as nobody": {true, 280, 320, 338, "up down"},
	} {
		w := &Watch{}
		var x *Snapshot
		var words []string
		for n := 0; n < c.until; n += 2 {
			if c.unread && n >= 200 && n < 280 {
				continue
			}
			at := second(n)
			x = Compose("cell1", "", at, time.Minute, nil, nil)
			// Four nova-computes: the last one dies at 100, one writes nothing from 200 on until it
			// comes back, as do the others and the conductor where nobody does.
			comes := c.comes
			if comes == 0 {
				comes = 1 << 30
			}
			second2 := beats(n, 200, comes)
			if c.conductor == 0 {
				second2 = beats(n, 0, 0)
			}
			other := Service{ID: 4, LastSeenUp: second2}
			x.Services = []Service{other, {ID: 1, LastSeenUp: beats(n, 200, comes)}, {ID: 2, LastSeenUp: second2}, {ID: 3, LastSeenUp: beats(min(n, 100), 200, 200)}}
			x.Others = []Beat{{ID: 9, Seen: beats(n, 200, max(c.conductor, 200))}}
			for _, s := range append(slices.Clone(x.Services), Service{LastSeenUp: x.Others[0].Seen}) {
				x.Heartbeat = newest(x.Heartbeat, s.LastSeenUp)
			}
			x = w.Judge(x, at, time.Minute)
		}
		for _, i := range []int{1, 3} {
			words = append(words, wordOf(x, &x.Services[i]))
		}
		if got := strings.Join(words, " "); got != c.want {
			t.Errorf("%s: one and the dead one are %s, want %s", name, got, c.want)
		}
	}
}

// A gateway starts while nobody writes: which of the services are down is not known until they had
// service_down_time to beat again, whatever one clock says, but of one that was dead for long before.
func TestOfAWatchThatBeginsWhereNobodyWritesNobodyIsDownBeforeItsTime(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	second := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second) }
	const stop = 1200
	for name, c := range map[string]struct {
		// The silence is of so many seconds, and the readings begin so long before its end.
		silence, from int
		// ahead is the conductor's clock; it beats for so long and is silent for so long again, if that is set.
		ahead, blip, again int
		living             string
	}{
		"for two minutes":                 {120, 20, 0, 0, 0, "unsure, up"},
		"for six minutes":                 {360, 20, 0, 0, 0, "unsure, up"},
		"for twenty minutes":              {1200, 20, 0, 0, 0, "unsure, up"},
		"a clock is ahead":                {120, 40, 50, 0, 0, "unsure, up"},
		"begun as it begins":              {120, 119, 50, 0, 0, "unsure, up"},
		"one writes for a while":          {120, 20, 0, 15, 90, "unsure, up"},
		"it is read before that as well":  {120, 200, 0, 0, 0, "up"},
		"and before that, with the clock": {120, 200, 50, 0, 0, "up"},
	} {
		w := &Watch{}
		back := stop + c.silence
		words := map[int64][]string{}
		for n := back - c.from; n < back+c.blip+c.again+150; n += 2 {
			at := second(n)
			x := Compose("cell1", "", at, time.Minute, nil, nil)
			conductor := min(n, stop)
			if n >= back {
				conductor = n
				if c.blip > 0 && n < back+c.blip+c.again {
					conductor = min(n, back+c.blip)
				}
			}
			x.Others = []Beat{{ID: 1, Seen: second(conductor - conductor%10 + c.ahead)}}
			x.Heartbeat = x.Others[0].Seen
			// Of six nova-computes the last one does not come back, one was dead for an hour.
			for i := range 6 {
				seen := stop - 10 + i
				if comes := back + c.blip + c.again + 20 + 6*i; n >= comes && i < 5 {
					seen = n - (n-comes)%10
				}
				x.Services = append(x.Services, Service{ID: int64(i + 2), LastSeenUp: second(seen)})
				x.Heartbeat = newest(x.Heartbeat, second(seen))
			}
			x.Services = append(x.Services, Service{ID: 9, LastSeenUp: second(stop - 3600)})
			x = w.Judge(x, at, time.Minute)
			if n < back {
				continue
			}
			for i := range x.Services {
				s := &x.Services[i]
				if word := wordOf(x, s); word != "silent copy" && (len(words[s.ID]) == 0 || words[s.ID][len(words[s.ID])-1] != word) {
					words[s.ID] = append(words[s.ID], word)
				}
			}
		}
		for id := int64(2); id <= 6; id++ {
			if got := strings.Join(words[id], ", "); !strings.HasSuffix(got, "up") || strings.Contains(got, "down") || id == 6 && got != c.living {
				t.Errorf("%s: %d is told as %q, want %q", name, id, got, c.living)
			}
		}
		for _, id := range []int64{7, 9} {
			if got := strings.Join(words[id], ", "); !strings.HasSuffix(got, "down") {
				t.Errorf("%s: %d, which does not come back, is told as %q", name, id, got)
			}
		}
	}
}
