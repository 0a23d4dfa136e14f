package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// upgradeLoad is users who start instances at a steady rate, through each gateway in turn, and
// delete them later. There is always room, so each NO_VALID_HOST is a failure. While a part is
// broken on purpose, a call that fails for another reason is repeated through the next gateway with
// its request_id, as a conductor does.
type upgradeLoad struct {
	t     testing.TB
	cells []*demoCell
	conns []*grpc.ClientConn
	// lifetime is about how long an instance runs.
	lifetime time.Duration

	mu      sync.Mutex
	sent    int
	took    []time.Duration
	sources map[cellgatev1.CellSource]int
	// placed counts instances by cell and by the source of the cell's candidates.
	placed   map[string]map[cellgatev1.CellSource]int
	failures map[string]int
	// half counts answers that used an incomplete table. without counts answers that lacked a cell
	// which was broken on purpose.
	half    map[string]int
	without int
	// broken counts what is broken now. mended is when a part was last repaired. again counts calls
	// that were repeated because of that.
	broken, again int
	mended        time.Time
}

// breaks marks that a part is broken on purpose, until mended is called.
func (l *upgradeLoad) breaks() (mended func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.broken--
		l.mended = time.Now()
	}
}

// excused reports whether something was broken since a call began. The caller holds mu.
func (l *upgradeLoad) excused(began time.Time) bool { return l.broken > 0 || began.Before(l.mended) }

// send makes a call through a gateway, and again while that is excused.
func (l *upgradeLoad) send(ctx context.Context, n int, do func(context.Context, *grpc.ClientConn) error) error {
	for {
		began := time.Now()
		err := do(ctx, l.conns[n%len(l.conns)])
		if err == nil || fault.KindOf(err) == fault.NoValidHost || ctx.Err() != nil {
			return err
		}
		l.mu.Lock()
		excused := l.excused(began)
		if excused {
			l.again++
		}
		l.mu.Unlock()
		if !excused {
			return err
		}
		hold(ctx, 100*time.Millisecond)
		n++
	}
}

func newUpgradeLoad(t testing.TB, cells []*demoCell, conns []*grpc.ClientConn, lifetime time.Duration) *upgradeLoad {
	return &upgradeLoad{t: t, cells: cells, conns: conns, lifetime: lifetime, sources: map[cellgatev1.CellSource]int{}, placed: map[string]map[cellgatev1.CellSource]int{}, failures: map[string]int{}, half: map[string]int{}}
}

// run starts rate instances per second until ctx ends, and waits for those that still run.
func (l *upgradeLoad) run(ctx context.Context, rate int) {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			all.Go(func() { l.instance(ctx, n) })
		}
	}
}

var upgradeFlavors = [][3]int32{{1, 2048, 10}, {2, 4096, 20}, {2, 2048, 40}}

// instance runs one instance: selected, built, confirmed, deleted. When ctx ends, it is deleted at
// once.
func (l *upgradeLoad) instance(ctx context.Context, n int) {
	bounded, cancel := context.WithTimeout(context.Background(), testwait.Limit)
	defer cancel()
	id, f := uuid.NewString(), upgradeFlavors[rand.IntN(len(upgradeFlavors))]
	req := &cellgatev1.SelectDestinationsRequest{
		// A claim of a call that failed ends with its lease.
		RequestId: uuid.NewString(), InstanceUuids: []string{id}, ClaimTtl: durationpb.New(time.Minute),
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: f[0], MemoryMb: f[1], RootGb: f[2]}, ProjectId: "demo",
		}},
	}
	began := time.Now()
	var resp *cellgatev1.SelectDestinationsResponse
	err := l.send(bounded, n, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		resp, err = cellgatev1.NewSchedulerClient(conn).SelectDestinations(ctx, req)
		return err
	})
	l.answered(resp, err, began)
	if err != nil {
		return
	}
	got := resp.GetDestinations()[0].GetSelected()
	k := hostOfName(l.cells, got.GetServiceHost())
	if k == nil {
		l.failed("a host that there is not: " + got.GetServiceHost())
		return
	}
	pause(bounded, 50*time.Millisecond, 300*time.Millisecond)
	k.build(id, f[0], f[1], f[2])
	claim := got.GetClaimId()
	if err := l.send(bounded, n, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := cellgatev1.NewClaimsClient(conn).ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: id, ClaimId: claim})
		return err
	}); err != nil {
		l.failed("confirm: " + err.Error())
	}
	pause(ctx, l.lifetime/2, l.lifetime*3/2)
	k.destroy(id)
	ending, done := context.WithTimeout(context.Background(), testwait.Limit)
	defer done()
	if err := l.send(ending, n, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := cellgatev1.NewClaimsClient(conn).ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: id, ClaimId: claim})
		return err
	}); err != nil {
		l.failed("release: " + err.Error())
	}
}

// pause waits between least and most, or until ctx ends.
func pause(ctx context.Context, least, most time.Duration) {
	hold(ctx, least+rand.N(most-least+1))
}

func (l *upgradeLoad) failed(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures[why]++
}

// answered checks an answer: every host of every cell was considered, in a complete table. A cell
// that is broken on purpose may be missing entirely.
func (l *upgradeLoad) answered(resp *cellgatev1.SelectDestinationsResponse, err error, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if err != nil {
		l.failures[err.Error()]++
		return
	}
	l.took = append(l.took, time.Since(began))
	excused := l.excused(began)
	if resp.GetPartial() && !excused {
		l.failures["partial: "+fmt.Sprint(resp.GetCells())]++
	}
	for _, c := range resp.GetCells() {
		l.sources[c.GetSource()]++
		if c.GetCell() == resp.GetDestinations()[0].GetSelected().GetCell() {
			if l.placed[c.GetCell()] == nil {
				l.placed[c.GetCell()] = map[cellgatev1.CellSource]int{}
			}
			l.placed[c.GetCell()][c.GetSource()]++
		}
		i := slices.IndexFunc(l.cells, func(n *demoCell) bool { return n.name == c.GetCell() })
		if excused && c.GetOutcome() == cellgatev1.CellOutcome_UNAVAILABLE {
			l.without++
			continue
		}
		if i < 0 || c.GetOutcome() != cellgatev1.CellOutcome_SEARCHED || int(c.GetHosts()) != len(l.cells[i].computes) {
			l.half[fmt.Sprintf("%s %s %s: %d hosts %s", c.GetCell(), c.GetSource(), c.GetOutcome(), c.GetHosts(), c.GetReason())]++
		}
	}
}

// sums returns the totals in the demonstration's table.
func (l *upgradeLoad) sums() (sent, failures int, p99 string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.failures {
		failures += n
	}
	return l.sent, failures, quantile(slices.Clone(l.took), 0.99)
}

// demand fails the test for everything that must not have happened.
func (l *upgradeLoad) demand() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.cells {
		for _, s := range []cellgatev1.CellSource{cellgatev1.CellSource_LEGACY, cellgatev1.CellSource_NATIVE} {
			if l.placed[c.name][s] == 0 {
				l.t.Errorf("nothing was placed in %s when its candidates were %s", c.name, s)
			}
		}
	}
	for _, bad := range []struct {
		what string
		of   map[string]int
	}{{"failed", l.failures}, {"answered from a table that was not whole", l.half}} {
		for _, why := range slices.Sorted(maps.Keys(bad.of)) {
			l.t.Errorf("%d %s: %s", bad.of[why], bad.what, strings.TrimSpace(why))
		}
	}
}
