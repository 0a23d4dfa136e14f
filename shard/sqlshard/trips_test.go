package sqlshard

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"cellgate/internal/pgproxy"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// Statements of transactions, as TestTransaction_AtTheWire_IsTwoTrips names them.
const (
	begins  = "BEGIN"
	commits = "COMMIT"
)

// Every transaction is two trips: one locks and reads, the other writes and commits. Neither the
// trips nor the statements grow with the number of operations.
func TestTransaction_AtTheWire_IsTwoTrips(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		proxy, url := at.proxied(t, at.database(t))
		s := newStand(t, at.options(url))
		wire := &traffic{}
		guards := func(list ...string) []string {
			if at.as.needsGuards() {
				return list
			}
			return nil
		}
		for _, c := range []struct {
			name string
			ops  func(n int) []shard.Op
			want [][]string
		}{
			{"claim", func(n int) []shard.Op { return []shard.Op{{Claim: shardtest.NewClaim(n, 1, 1)}} }, [][]string{
				slices.Concat([]string{begins, "host_usages"}, guards("consumers"), []string{"lanes", "claims"}),
				slices.Concat([]string{"host_usages"}, guards("consumers"), []string{"claims", "journal", commits}),
			}},
			{"64 claims", func(n int) (ops []shard.Op) {
				for i := range 64 {
					ops = append(ops, shard.Op{Claim: shardtest.NewClaim(n+i, 1, 1)})
				}
				return ops
			}, [][]string{
				slices.Concat([]string{begins, "host_usages"}, guards("consumers"), []string{"lanes", "claims"}),
				slices.Concat([]string{"host_usages"}, guards("consumers"), []string{"claims", "journal", commits}),
			}},
			{"confirm", func(n int) []shard.Op { return []shard.Op{{Confirm: shardtest.Ref(n - 100)}} }, [][]string{
				slices.Concat([]string{begins, "host_usages"}, guards("consumers"), []string{"lanes", "claims"}),
				{"host_usages", "claims", "journal", commits},
			}},
			{"release", func(n int) []shard.Op { return []shard.Op{{Release: shardtest.Ref(n - 200)}} }, [][]string{
				{begins, "host_usages", "lanes", "claims"},
				{"host_usages", "claims", "ended_claims", "journal", commits},
			}},
		} {
			t.Run(c.name, func(t *testing.T) {
				// The first round prepares the statements and reads the hosts; the second is
				// measured.
				for round := range 2 {
					n := 1000*round + map[string]int{"claim": 0, "64 claims": 300, "confirm": 100, "release": 200}[c.name]
					wire.clear()
					proxy.SetPlan(wire.note)
					if err := s.apply(c.ops(n)...); err != nil {
						t.Fatal(err)
					}
					proxy.SetPlan(nil)
				}
				if got := wire.trips(); fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("the transaction was %v, want %v", got, c.want)
				}
			})
		}
	})
}

// traffic records statements.
type traffic struct {
	mu   sync.Mutex
	list []pgproxy.Statement
}

func (w *traffic) note(st pgproxy.Statement) pgproxy.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if st.N > 0 {
		w.list = append(w.list, st)
	}
	return pgproxy.Fault{}
}

func (w *traffic) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = nil
}

// trips are the statements of each trip, each as the first table that it names. The statement that
// reserves time is left out, since it runs once a second.
func (w *traffic) trips() (all [][]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := -1
	for _, st := range w.list {
		if st.SQL == reserveTime {
			continue
		}
		if st.Trip != last {
			all, last = append(all, nil), st.Trip
		}
		all[len(all)-1] = append(all[len(all)-1], tableOf(st))
	}
	return all
}

// tableOf is the table whose rows a statement reads or writes.
func tableOf(st pgproxy.Statement) string {
	switch st.Role {
	case pgproxy.Begin:
		return begins
	case pgproxy.Commit:
		return commits
	}
	words := strings.Join(strings.Fields(st.SQL), " ") + " "
	first, at := words, len(words)
	for _, table := range tables {
		for _, before := range []string{"FROM ", "INTO ", "UPDATE "} {
			if i := strings.Index(words, before+table+" "); i >= 0 && i < at {
				first, at = table, i
			}
		}
	}
	if st.SQL == readLane || st.SQL == lockLane {
		return "lanes" // the statement first names the table of the lane's entry
	}
	return first
}

// A replica's poll, ten times a second, is one statement that reads the entries of other lanes,
// however many there are.
func TestTail_AtTheWire_IsOneStatement(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		proxy, url := at.proxied(t, at.database(t))
		s, other := newStand(t, at.options(url)), openAt(t, at.options(url))
		t.Cleanup(func() { mustClose(t, other) })
		lane, err := other.OpenLane(t.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		var cursor shard.Cursor
		wire := &traffic{}
		for n, entries := range []int{2, 0, 3} {
			for i := range entries {
				if _, err := lane.Apply(t.Context(), []shard.Op{{PutHost: shardtest.BigHost(100*n + i)}}); err != nil {
					t.Fatal(err)
				}
			}
			wire.clear()
			proxy.SetPlan(wire.note)
			got, to, err := s.Tail(t.Context(), cursor, 100)
			if err != nil {
				t.Fatal(err)
			}
			proxy.SetPlan(nil)
			cursor = to
			if n == 0 {
				continue // the first call reads the lanes and prepares the statement
			}
			if trips := wire.trips(); len(got) != entries || fmt.Sprint(trips) != "[[lanes]]" {
				t.Errorf("reading %d entries gave %d in %v, want one statement", entries, len(got), trips)
			}
		}
	})
}
