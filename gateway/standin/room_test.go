package standin

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// rejects of a proposal that nothing passed, by filter and detail.
func (w *world) rejects(vcpus int64) map[string]int {
	w.Helper()
	p := w.ask(plain(vcpus))
	if p.Passed != 0 {
		w.Fatalf("%d hosts pass", p.Passed)
	}
	out := map[string]int{}
	for _, r := range p.Rejects {
		out[r.Filter+" "+r.Detail] = r.Hosts
	}
	return out
}

func (w *world) passed(vcpus int64, want int, when string) {
	w.Helper()
	if got := w.ask(plain(vcpus)).Passed; got != want {
		w.Errorf("%s: %d hosts pass for %d, want %d", when, got, vcpus, want)
	}
}

func roomOf(host int, class string, amount int64) *cellv1.HostRoom {
	return &cellv1.HostRoom{HostUuid: hostID(host).String(), Rooms: []*cellv1.Room{{ResourceClass: class, Amount: amount}}}
}

// Three hosts of 64 CPUs by their rows: what the shard refused is not proposed, less is;
// what it said counts for two seconds, and rows as before then.
func TestRoomThatTheShardDoesNotHave(t *testing.T) {
	w := newWorld(t, 3)
	w.update()
	w.Refused(hostID(0).String(), vcpu, 8)
	w.passed(8, 2, "refused on one")
	w.passed(7, 3, "less than was refused")
	w.Refused(hostID(0).String(), vcpu, 20)
	w.passed(8, 2, "more was refused later")
	w.Rooms([]*cellv1.HostRoom{roomOf(0, vcpu, 9), roomOf(1, vcpu, -3), roomOf(2, vcpu, 100)})
	w.passed(9, 2, "the shard said what it has")
	w.passed(10, 1, "the shard said what it has")
	w.at = w.at.Add(1900 * time.Millisecond)
	w.passed(10, 1, "not for two seconds yet")
	w.at = w.at.Add(100 * time.Millisecond)
	w.passed(16, 3, "after two seconds")
	if len(w.rooms) != 0 || !w.lapseAt.IsZero() {
		t.Errorf("%d rooms are kept, the next lapses at %v", len(w.rooms), w.lapseAt)
	}
}

// Words on one class do not lengthen what was said of another.
func TestRoomLapsesClassByClass(t *testing.T) {
	w := newWorld(t, 1)
	w.update()
	w.Refused(hostID(0).String(), vcpu, 8)
	for range 4 {
		w.at = w.at.Add(500 * time.Millisecond)
		w.Refused(hostID(0).String(), memoryMB, 1<<20)
		w.Refused(hostID(0).String(), memoryMB, 100)
	}
	w.passed(16, 1, "after two seconds")
	if got := w.used(0, memoryMB); got != 65536-99 {
		t.Errorf("%d MB are in use", got)
	}
}

// Claims made take of it, those that end give it back at once; the rows are no less
// than they say.
func TestRoomFollowsOwnClaims(t *testing.T) {
	w := newWorld(t, 1)
	w.update()
	c := newClaim(3, 0) // of 4
	w.Chose(c, w.at.Add(time.Hour))
	w.Refused(hostID(0).String(), vcpu, 1)
	w.passed(1, 0, "full")
	w.Ended(c.GetClaimId())
	w.passed(4, 1, "one of 4 ended")
	w.passed(5, 0, "one of 4 ended")
	w.Chose(newClaim(2, 0), w.at.Add(time.Hour)) // of 3
	w.passed(1, 1, "one of 3 came")
	w.passed(2, 0, "one of 3 came")
	w.change(0).VCPUsUsed = 64
	w.update()
	w.passed(1, 0, "the row is full")
	w.rows[0].gone = true
	w.update()
	if len(w.rooms) != 0 {
		t.Errorf("%d rooms of no host", len(w.rooms))
	}
}

// Who looks why nothing passed is told the shard's hosts from those whose rows are full.
func TestRejectsTellTheShardsHosts(t *testing.T) {
	w := newWorld(t, 4)
	w.change(3).VCPUsUsed = 60
	w.update()
	for n := range 4 {
		w.Refused(hostID(n).String(), vcpu, 8)
	}
	if got := fmt.Sprint(w.rejects(8)); got != "map[ResourceFilter VCPU:1 ShardFilter VCPU:3]" {
		t.Errorf("it says %v", got)
	}
	w.change(3).VCPUsUsed = 0
	w.update()
	if got := fmt.Sprint(w.rejects(17)); got != "map[ResourceFilter VCPU:4]" {
		t.Errorf("it says %v of what no host ever had", got)
	}
	w.rows[2].service.Disabled = true
	w.update()
	w.Refused(hostID(3).String(), vcpu, 8)
	if got := w.rejects(8); got["ShardFilter VCPU"]+got["ResourceFilter VCPU"] != 3 || got["ComputeFilter disabled"] != 1 {
		t.Errorf("it says %v", got)
	}
}

// Whatever was told in whatever order, a host has in use what its row and claims have,
// or what the shard left no room beside: the naive sum.
func TestRoomIsTheLesserOfRowAndShard(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, 3)
		w.rng = rand.New(rand.NewPCG(seed, 9))
		w.update()
		type word struct {
			left int64
			at   time.Time
		}
		words := [3]word{}
		sizes := map[int][2]int64{} // host and size of the claims that count
		held := func(host int) (n int64) {
			for _, c := range sizes {
				if c[0] == int64(host) {
					n += c[1]
				}
			}
			return n
		}
		for step := range 80 {
			w.at = w.at.Add(time.Duration(w.rng.IntN(600)) * time.Millisecond)
			for n := range words {
				if !words[n].at.IsZero() && w.at.Sub(words[n].at) >= 2*time.Second {
					words[n] = word{}
				}
			}
			w.loaded() // as a query does
			host, id := w.rng.IntN(3), w.rng.IntN(12)
			free := min(16, 64-w.rows[host].VCPUsUsed-held(host))
			said := &words[host]
			switch w.rng.IntN(4) {
			case 0:
				amount := w.rng.Int64N(64) + 1
				known := int64(math.MaxInt64)
				if !said.at.IsZero() {
					known = said.left
				}
				if left := min(known, amount-1); known < math.MaxInt64 || left < free {
					*said = word{left, w.at}
				}
				w.Refused(hostID(host).String(), vcpu, amount)
			case 1:
				amount := w.rng.Int64N(80) - 10
				if !said.at.IsZero() || amount < free {
					*said = word{amount, w.at}
				}
				w.Rooms([]*cellv1.HostRoom{roomOf(host, vcpu, amount)})
			case 2:
				c := newClaim(id, host)
				if old, ok := sizes[id]; ok {
					words[old[0]].left += old[1]
				}
				sizes[id] = [2]int64{int64(host), int64(id%4 + 1)}
				said.left -= sizes[id][1]
				w.Chose(c, w.at.Add(time.Hour))
			case 3:
				if old, ok := sizes[id]; ok {
					words[old[0]].left += old[1]
					delete(sizes, id)
				}
				w.Ended(fmt.Sprint("claim-", id))
			}
			for n := range words {
				want := w.rows[n].VCPUsUsed + held(n)
				if !words[n].at.IsZero() {
					want = max(want, 64-words[n].left)
				}
				if got := w.used(n, vcpu); got != want {
					t.Fatalf("seed %d, step %d: host %d has %d in use, want %d", seed, step, n, got, want)
				}
			}
		}
	}
}
