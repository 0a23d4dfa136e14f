package gateway

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// While a gate is SHADOW, what the stand-in answered is asked of the cell's own table
// too, in the background: the two must agree before the cell answers by itself. Both
// are asked the same query, without picks, the cell under the stand-in's bounds. A host
// that is not busy is suspect when it
//
//   - passes by one, and not by the other, or
//   - is in one list, and missing in the other, which is long enough to have it, or
//   - is in both, and has to be left out for their order to be the same, or
//   - has more of VCPU, MEMORY_MB or DISK_GB free by the table than by the rows, or
//   - has a disk that is measured, and more or less of it free than that (measuredDisks).
//
// Which hosts pass is compared by a sum over all of them, and by their uuids where the sums
// differ. What is free is compared of hosts in turn, passing or not, as
// many as weighedHosts with each query. A host is busy while the stand-in counts a claim on
// it beside its row, or this gateway made or ended one a moment ago: the rows show that
// later than the table, or twice. One with a claim of which the cell says that no report of
// the host ever had its instance is busy too, but for what it has free. What other gateways
// end nobody tells. So what is suspect is asked for again, settle refreshes later: a
// difference is what was suspect every time. What agrees is told after all that was asked
// before it was decided, so that no gate opens while older answers are in doubt.
// Answers of busy hosts alone count as nothing. What goes by a host's builds and tasks is not asked for
// (comparablePlacement). A host whose measured disk is not equal at the moment is left out of answers to
// queries that ask for disk, as a busy one; while there are such hosts every other query does not ask for it.
const (
	// askedHosts is how many of the first hosts are compared.
	askedHosts = 32
	// weighedHosts is of how many what is free is compared.
	weighedHosts = 256
	// mostCompared bounds the selections compared in one Refresh; leastCompared is how
	// many there are, with probes where there are too few selections.
	mostCompared, leastCompared = 50, 5
	// maxExamples is how many differences a report has, the newest.
	maxExamples = 16
	// maxShapes is how many shapes of requests are kept to probe with.
	maxShapes = 8
	// settle is how many refreshes after a difference both are asked again, at most
	// repeats times.
	settle, repeats = 2, 3
	// mostLater bounds what is to be asked again.
	mostLater = 2 * repeats * settle * mostCompared
)

// comparisons counts selections that both tables were asked.
type comparisons struct {
	compared, differed int64
	examples           []*cellgatev1.ShadowDifference
}

// comparison is one query to compare by.
type comparison struct {
	request   string
	placement []byte
	seed      uint64
	// from is when it may be asked; again counts how often it differed before, each time
	// in suspects.
	from     time.Time
	again    int
	suspects suspects
	// outcome is what comes of it, nil before it is asked first; roomOf are the hosts whose
	// free amounts are compared, 16 bytes each; diskless: it is asked as if for no disk.
	outcome  *outcome
	roomOf   []byte
	diskless bool
}

// outcome is what came of a comparison, once it is decided; counting nothing when
// nothing could be told.
type outcome struct {
	comparisons
	decided bool
}

// comparer keeps what is to be compared and what was. Safe for concurrent use.
type comparer struct {
	jobs chan comparison
	mu   sync.Mutex
	done comparisons
	// begun are the comparisons under way, the oldest first, and those behind one.
	begun []*outcome
	// roomAt is the host whose free amounts are compared next, by its place in the rows.
	roomAt int
	// taken counts the selections taken in this Refresh.
	taken int
	// shapes are recent placements, the newest last.
	shapes [][]byte
	// touched says until when a host is busy; awaited are those with claims that the cell
	// awaits, instanceless those with claims that it awaits no more.
	touched      map[string]time.Time
	awaited      map[string]bool
	instanceless map[string]bool
	// looks are at what hosts report beside claims, disks at what they have measured.
	looks hostLooks
	disks measuredDisks
	// diskless: the comparison before was.
	diskless bool
}

func newComparer(read HypervisorRead) *comparer {
	return &comparer{jobs: make(chan comparison, mostCompared), touched: map[string]time.Time{}, looks: hostLooks{read: read}}
}

// take gives what was compared since, and put gives it back.
func (c *comparer) take() comparisons {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.done
	c.done = comparisons{}
	return out
}

func (c *comparer) put(o comparisons) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done.compared += o.compared
	c.done.differed += o.differed
	all := append(slices.Clone(o.examples), c.done.examples...)
	c.done.examples = all[max(0, len(all)-maxExamples):]
}

// offer takes a selection that was answered, unless there are enough. It never
// blocks.
func (c *comparer) offer(j comparison) {
	c.mu.Lock()
	if c.taken >= mostCompared {
		c.mu.Unlock()
		return
	}
	c.taken++
	if !slices.ContainsFunc(c.shapes, func(s []byte) bool { return string(s) == string(j.placement) }) {
		c.shapes = append(c.shapes, j.placement)
		c.shapes = c.shapes[max(0, len(c.shapes)-maxShapes):]
	}
	c.mu.Unlock()
	select {
	case c.jobs <- j:
	default: // it is slower than requests come: the next ones say as much
	}
}

// missing gives how many probes this Refresh still lacks, and the shapes there are to
// probe with; it begins the next one.
func (c *comparer) missing() (n int, shapes [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = max(0, leastCompared-c.taken)
	c.taken = 0
	return n, slices.Clone(c.shapes)
}

// touch notes that a claim on a host was made or ended.
func (c *comparer) touch(host string, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched[host] = until
}

// await takes the claims that the cell named: those that the rows do not show yet, and
// those that they never will.
func (c *comparer) await(claims, never []*cellv1.AwaitedClaim) {
	awaited, instanceless := hostsOf(claims), hostsOf(never)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited, c.instanceless = awaited, instanceless
}

func hostsOf(claims []*cellv1.AwaitedClaim) map[string]bool {
	hosts := make(map[string]bool, len(claims))
	for _, a := range claims {
		hosts[a.GetHostUuid()] = true
		for _, p := range a.GetAllocations() {
			hosts[p.GetProviderUuid()] = true
		}
	}
	return hosts
}

// busy gives the hosts whose claims the rows may not show, and those of counted. Those of
// instanceless alone are not in under: no claim of theirs comes or goes, and they have less free
// by the shard than by their rows.
func (c *comparer) busy(now time.Time, counted []string) (all, under map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]bool, len(counted)+len(c.awaited)+len(c.touched))
	for _, h := range counted {
		out[h] = true
	}
	for h := range c.awaited {
		out[h] = true
	}
	for h, until := range c.touched {
		if now.After(until) {
			delete(c.touched, h)
			continue
		}
		out[h] = true
	}
	if len(c.instanceless) == 0 {
		return out, out
	}
	all = maps.Clone(out)
	maps.Copy(all, c.instanceless)
	return all, out
}

// isShadow reports whether the cell's two answers are compared now.
func (w *gate) isShadow() bool {
	v := w.view()
	return v.standIn && v.known.GetState() == cellgatev1.Gate_SHADOW
}

// shadow has the cells that compare their answers look at an answered selection.
func (s *selection) shadow() {
	for i := range s.views {
		v := &s.views[i]
		if !v.standIn || v.known.GetState() != cellgatev1.Gate_SHADOW || s.skip[i] != "" || s.lost[i] != nil {
			continue
		}
		v.gate.shadow.offer(comparison{request: s.req.GetRequestId(), placement: placementBytes(s.originalRequest, s.rules, s.moving()), seed: s.seed})
	}
}

// compareAll compares what is offered until ctx ends, and probes where that is too
// little: a cell without requests is to move too.
func (w *gate) compareAll(ctx context.Context) {
	var later []comparison
	tick := time.NewTimer(jittered(w.cfg.Refresh))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-w.shadow.jobs:
			later = w.compareOne(ctx, j, later)
		case <-tick.C:
			tick.Reset(jittered(w.cfg.Refresh))
			n, shapes := w.shadow.missing()
			if !w.isShadow() {
				later = nil
				w.shadow.forget()
				continue
			}
			later = w.compareLater(ctx, later)
			for i := range n {
				later = w.compareOne(ctx, comparison{placement: w.probe(shapes, i), seed: rand.Uint64()}, later)
			}
		}
	}
}

// compareLater compares again what differed. The claims that are awaited are asked for
// first: those of other gateways are not known otherwise.
func (w *gate) compareLater(ctx context.Context, later []comparison) []comparison {
	now := w.g.now()
	due, rest := []comparison(nil), []comparison(nil)
	for _, j := range later {
		if now.Before(j.from) {
			rest = append(rest, j)
		} else {
			due = append(due, j)
		}
	}
	if len(due) == 0 {
		return rest
	}
	if w.enter(ctx) != nil {
		return later
	}
	resp, err := w.ask(ctx, true)
	w.leave()
	if err != nil {
		return later
	}
	w.shadow.await(resp.GetAwaited(), resp.GetWithoutInstance())
	for _, j := range due {
		rest = w.compareOne(ctx, j, rest)
	}
	return rest
}

// compareOne compares by one query; a difference is put off until it was there every
// time. One for which there is no room is no comparison.
func (w *gate) compareOne(ctx context.Context, j comparison, later []comparison) []comparison {
	if !w.isShadow() {
		w.shadow.forget()
		return nil
	}
	if j.outcome == nil {
		j.outcome, j.roomOf, j.diskless = w.shadow.begin(), w.inTurn(), w.shadow.withoutDisk()
	}
	bounded, cancel := context.WithTimeout(ctx, 2*(w.g.cfg.ProposeBudget+w.cell.proposeTime())) // both may be asked twice
	defer cancel()
	var done comparisons
	diff, found, counts, err := w.compare(bounded, j)
	switch {
	case err != nil:
		w.g.log.DebugContext(ctx, "a selection was not compared", "cell", w.cell.cfg.Name, "error", err)
	case !counts:
	case diff != nil && j.again < repeats:
		if len(later) < mostLater {
			j.again, j.suspects, j.from = j.again+1, found, w.g.now().Add(settle*w.cfg.Refresh)
			j.roomOf = withRoomOf(j.roomOf, found)
			return append(later, j)
		}
	default:
		done.compared = 1
		if diff != nil {
			done.differed, done.examples = 1, []*cellgatev1.ShadowDifference{diff}
			w.g.log.InfoContext(ctx, "a cell's own table answers otherwise than its legacy rows", "cell", w.cell.cfg.Name, "request_id", j.request, "query", diff.GetQuery(), "detail", diff.GetDetail())
		}
		w.tel.Compared(diff != nil)
	}
	w.shadow.decide(j.outcome, done)
	return later
}

// begin puts a comparison behind those under way.
func (c *comparer) begin() *outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := &outcome{}
	c.begun = append(c.begun, o)
	return o
}

// decide notes what came of a comparison, and counts all before which none is in doubt.
func (c *comparer) decide(o *outcome, is comparisons) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.comparisons, o.decided = is, true
	for len(c.begun) > 0 && c.begun[0].decided {
		c.add(c.begun[0].comparisons)
		c.begun = c.begun[1:]
	}
}

// forget drops what is under way: the gate is not SHADOW any more.
func (c *comparer) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = nil
}

// add counts what was decided. It needs mu.
func (c *comparer) add(o comparisons) {
	c.done.compared += o.compared
	c.done.differed += o.differed
	c.done.examples = append(c.done.examples, o.examples...)
	c.done.examples = c.done.examples[max(0, len(c.done.examples)-maxExamples):]
}

// inTurn gives the next weighedHosts of the rows, in a circle.
func (w *gate) inTurn() []byte {
	rows := w.rows.Load()
	if rows == nil || len(rows.Hosts) == 0 {
		return nil
	}
	n := len(rows.Hosts)
	w.shadow.mu.Lock()
	at := w.shadow.roomAt % n
	w.shadow.roomAt = at + weighedHosts
	w.shadow.mu.Unlock()
	var out []byte
	for i := range min(weighedHosts, n) {
		out = append(out, rows.Hosts[(at+i)%n].UUID[:]...)
	}
	return out
}

// compare asks both. It gives how they differ in what was suspect before too, nil when
// they do not, and whether there was something to compare.
func (w *gate) compare(ctx context.Context, j comparison) (diff *cellgatev1.ShadowDifference, found suspects, counts bool, err error) {
	j.placement = comparablePlacement(j.placement, j.diskless)
	before, _ := w.shadow.busy(w.g.now(), w.parts.StandIn.Counted())
	before = w.shadow.leftOut(j, before)
	both, err := w.askBoth(ctx, j, before, false)
	if err == nil && both.sets() == setsDiffer {
		both, err = w.askBoth(ctx, j, before, true)
	}
	if err != nil {
		return nil, nil, false, err
	}
	rows, now := w.rows.Load(), w.g.now()
	w.shadow.looks.took(rows, both.nativeWire.GetGateEpoch(), j.roomOf, both.nativeWire)
	busy, under := w.shadow.busy(now, w.parts.StandIn.Counted())
	disks := w.shadow.disks.took(rows, both.nativeWire.GetGateEpoch(), both.nativeWire.GetRooms(), busy, under, now)
	busy = w.shadow.leftOut(j, busy)
	found, counts = suspectsOf(both.old, both.native, busy)
	switch both.sets() {
	case setsUnknown:
		found.numbers(both.old, both.native, busy)
	case setsDiffer:
		found.sets(both, busy, rows)
	}
	maps.Copy(found, freer(rows, both.nativeWire.GetRooms(), under, disks))
	counts = counts || len(found) > 0
	if j.again > 0 {
		found = found.and(j.suspects)
	}
	if len(found) == 0 {
		return nil, nil, counts, nil
	}
	return &cellgatev1.ShadowDifference{
		At: timestamppb.New(now), RequestId: j.request, LegacyPassed: int32(both.old.Passed), NativePassed: int32(both.native.Passed),
		LegacyFirst: firstNames(both.old), NativeFirst: firstNames(both.native), Detail: found.String(),
		Query: queryText(j.placement, j.seed),
	}, found, true, nil
}

// probe gives a placement to compare by when there are no requests: of those that came
// lately, else of a few sizes.
func (w *gate) probe(shapes [][]byte, i int) []byte {
	if len(shapes) > 0 {
		return shapes[(len(shapes)-1-i%len(shapes))%len(shapes)]
	}
	f := probeFlavors[i%len(probeFlavors)]
	s, err := w.g.newSelection(&cellgatev1.SelectDestinationsRequest{
		InstanceUuids: []string{"00000000-0000-4000-8000-000000000000"},
		Spec:          &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{Flavor: proto.CloneOf(f)}},
	})
	if err != nil {
		panic(fmt.Sprintf("gateway: a probe is no request: %v", err)) // a defect: they are constants
	}
	return placementBytes(s.request, s.rules, schedule.ID{})
}

var probeFlavors = []*cellgatev1.Flavor{
	{Name: "probe-1", Vcpus: 1, MemoryMb: 512, RootGb: 1},
	{Name: "probe-2", Vcpus: 2, MemoryMb: 4096, RootGb: 20},
	{Name: "probe-4", Vcpus: 4, MemoryMb: 8192, RootGb: 40},
	{Name: "probe-8", Vcpus: 8, MemoryMb: 16384, RootGb: 80},
	{Name: "probe-16", Vcpus: 16, MemoryMb: 65536, RootGb: 160},
}
