package cell

import (
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/testlong"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// readCopy is what a gateway reads of Nova's services by now, from a copy that is behind: each
// beats every 10 s, the one of host n 3n s after the others began, until dead.
func readCopy(gateway string, behind time.Duration, dead time.Time, hosts ...int) *cellv1.ReportLegacyRequest {
	req := legacyOf(gateway, 66, hosts...)
	req.Revision = uint64(time.Now().UnixNano())
	moment := time.Now().Add(-behind)
	if !dead.IsZero() && moment.After(dead) {
		moment = dead
	}
	var newest time.Time
	for i, s := range req.GetServices() {
		late := time.Duration(hosts[i]) * 3 * time.Second
		beat := moment.Add(-late).Truncate(10 * time.Second).Add(late)
		s.ChangedAt, s.LastSeen, s.Up = timestamppb.New(beat), timestamppb.New(beat), time.Since(beat) <= time.Minute
		if beat.After(newest) {
			newest = beat
		}
	}
	req.ReadTo = timestamppb.New(newest)
	return req
}

// said counts what of Nova's is written of hosts, and how often a word is only refreshed.
type said struct{ words, refreshed int }

// twoReplicas are replicas of a cell of three agents, each with a gateway of its own.
func twoReplicas(t *testing.T) (fresh, late *testCell, s *said) {
	t.Helper()
	store := newStore(t)
	fresh, late = start(t, store, named("r1")), start(t, store, named("r2"))
	for n := range 3 {
		fresh.register(plainState(n, 8))
	}
	fresh.pin(nativeState)
	time.Sleep(time.Second) // the other one's reading of the journal
	s = &said{}
	store.hook(func(ops []shard.Op, apply func() (shard.Applied, error)) (shard.Applied, error) {
		for _, op := range ops {
			switch {
			case op.SetNovaState == nil:
			case op.SetNovaState.Refresh:
				s.refreshed++
			default:
				s.words++
			}
		}
		return apply()
	})
	return fresh, late, s
}

// outNow gives how many hosts nothing new is placed on, by what the row of each says.
func (r *testCell) outNow() (out int) {
	for n := range 3 {
		if row := r.cell.rows.Host(hostUUID(n)); len(row.Admin.Withholding()) > 0 {
			out++
		}
	}
	return out
}

// Two gateways that report to two replicas of the cell, one of which has not yet seen that a
// compute came, or that one went: they take no turns.
func TestReplicasTakeNoTurnsAboutAHostThatOneCopyHasNot(t *testing.T) {
	testlong.Only(t, "TestReplicasTakeNoTurnsAboutSilence")
	for _, c := range []struct {
		name          string
		before, after []int
		words, out    int
	}{
		// What the older one says is written once at most, and taken back.
		{"a compute came", []int{0, 1}, []int{0, 1, 2}, 2, 0},
		{"a compute went", []int{0, 1, 2}, []int{0, 1}, 3, 1},
	} {
		for _, behind := range []time.Duration{8 * time.Second, 3 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				fresh, late, s := twoReplicas(t)
				time.Sleep(37 * time.Second)
				moved := time.Now()
				for time.Since(moved) < 4*time.Minute {
					fresh.told(readCopy("a", 0, time.Time{}, c.after...))
					time.Sleep(time.Second)
					hosts := c.before
					if time.Since(moved) >= behind {
						hosts = c.after
					}
					late.told(readCopy("b", behind, time.Time{}, hosts...))
					time.Sleep(time.Second)
				}
				if behind > time.Minute {
					c.words += 2 * len(c.before) // it says that all are silent, once
				}
				if s.words > c.words || fresh.outNow() != c.out || late.outNow() != c.out {
					t.Errorf("%s, %v behind: %d words, at last %d and %d hosts are out; want %d and %d", c.name, behind, s.words, fresh.outNow(), late.outNow(), c.words, c.out)
				}
			})
		}
	}
}

// A copy that is behind by more than it takes a service to be silent says that all are. That
// is no word while another gateway's rows are known to be newer.
func TestReplicasTakeNoTurnsAboutSilence(t *testing.T) {
	lags := []time.Duration{55 * time.Second}
	if os.Getenv("CELLGATE_LONG") != "" {
		lags = append(lags, 3*time.Minute)
	}
	for _, behind := range lags {
		synctest.Test(t, func(t *testing.T) {
			fresh, late, s := twoReplicas(t)
			hosts := []int{0, 1, 2}
			goes := func(on time.Duration, dead time.Time, from ...*testCell) (out int) {
				for end := time.Now().Add(on); time.Now().Before(end); {
					if slices.Contains(from, fresh) {
						fresh.told(readCopy("a", 0, dead, hosts...))
					}
					time.Sleep(time.Second)
					if slices.Contains(from, late) {
						late.told(readCopy("b", behind, dead, hosts...))
					}
					time.Sleep(time.Second)
					out = max(out, fresh.outNow())
				}
				return out
			}
			goes(2*time.Minute, time.Time{}, fresh, late)
			if s.words > 6 {
				t.Errorf("%v behind: %d words before the readings are known", behind, s.words)
			}
			before := s.words
			if out := goes(10*time.Minute, time.Time{}, fresh, late); out != 0 || s.words != before {
				t.Errorf("%v behind: up to %d hosts are out, with %d words", behind, out, s.words-before)
			}
			if most := int(10 * time.Minute / (10 * time.Second)); s.refreshed > most {
				t.Errorf("%v behind: refreshed %d times in ten minutes, want at most %d", behind, s.refreshed, most)
			}
			// What is silent for both is: as soon as the newer one says so.
			dead := time.Now()
			goes(80*time.Second, dead, fresh, late)
			if fresh.outNow() != 3 || late.outNow() != 3 {
				t.Errorf("%v behind: %d and %d hosts of a dead Nova are out", behind, fresh.outNow(), late.outNow())
			}
			goes(time.Minute, time.Time{}, fresh, late)
			if fresh.outNow() != 0 {
				t.Errorf("%v behind: %d hosts are out when Nova is back", behind, fresh.outNow())
			}
			// Alone, the one that is behind is believed once it has what the other had.
			goes(behind+time.Minute, time.Time{}, late)
			if want := map[bool]int{true: 3, false: 0}[behind > time.Minute]; late.outNow() < want {
				t.Errorf("%v behind, and alone: %d hosts are out, want %d", behind, late.outNow(), want)
			}
		})
	}
}

// A host that was silent comes back with its own heartbeat, though other rows of Nova's are dated in the
// future, by a machine whose clock is ahead.
func TestASilentHostComesBackWhereAClockIsAhead(t *testing.T) {
	for _, lead := range []time.Duration{0, 15 * time.Second, 50 * time.Second} {
		t.Run(lead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fresh, _, _ := twoReplicas(t)
				report := func(n int, beats func(host int) bool) {
					for range n {
						req := readCopy("g1", 0, time.Time{}, 0, 1, 2)
						for i, s := range req.GetServices() {
							if !beats(i) {
								old := time.Now().Add(-2 * time.Minute)
								s.ChangedAt, s.LastSeen, s.Up = timestamppb.New(old), timestamppb.New(old), false
							}
						}
						req.ReadTo = timestamppb.New(time.Now().Add(lead))
						fresh.told(req)
						time.Sleep(2 * time.Second)
					}
				}
				report(60, func(host int) bool { return host != 2 })
				if out := fresh.outNow(); out != 1 {
					t.Fatalf("%d hosts are out while one is silent", out)
				}
				report(10, func(int) bool { return true })
				if out := fresh.outNow(); out != 0 {
					t.Errorf("%d hosts are out after it beat again for 20 s", out)
				}
			})
		})
	}
}
