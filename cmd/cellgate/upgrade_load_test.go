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

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// upgradeLoad is users who start instances at a steady rate, through every gateway by
// turns, and delete them later. There is always room: each refusal is a failure.
type upgradeLoad struct {
	t     testing.TB
	cells []*demoCell
	conns []*grpc.ClientConn
	// life is about how long an instance lives.
	life time.Duration

	mu      sync.Mutex
	sent    int
	took    []time.Duration
	sources map[cellgatev1.CellSource]int
	// placed counts instances by cell and where the candidates of the cell came from.
	placed   map[string]map[cellgatev1.CellSource]int
	failures map[string]int
	// half counts answers of which a part came from a table that was not whole.
	half map[string]int
}

func newUpgradeLoad(t testing.TB, cells []*demoCell, conns []*grpc.ClientConn, life time.Duration) *upgradeLoad {
	return &upgradeLoad{t: t, cells: cells, conns: conns, life: life, sources: map[cellgatev1.CellSource]int{}, placed: map[string]map[cellgatev1.CellSource]int{}, failures: map[string]int{}, half: map[string]int{}}
}

// run starts rate instances a second until ctx ends, and waits for those that live.
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
			all.Go(func() { l.instance(ctx, l.conns[n%len(l.conns)]) })
		}
	}
}

var upgradeFlavors = [][3]int32{{1, 2048, 10}, {2, 4096, 20}, {2, 2048, 40}}

// instance is the life of one: chosen, built, confirmed, deleted. Once ctx has ended it
// is deleted at once.
func (l *upgradeLoad) instance(ctx context.Context, conn *grpc.ClientConn) {
	bounded, cancel := context.WithTimeout(context.Background(), tooLong)
	defer cancel()
	id, f := uuid.NewString(), upgradeFlavors[rand.IntN(len(upgradeFlavors))]
	began := time.Now()
	resp, err := cellgatev1.NewSchedulerClient(conn).SelectDestinations(bounded, &cellgatev1.SelectDestinationsRequest{
		RequestId: uuid.NewString(), InstanceUuids: []string{id},
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: f[0], MemoryMb: f[1], RootGb: f[2]}, ProjectId: "demo",
		}},
	})
	l.answered(resp, err, time.Since(began))
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
	claims := cellgatev1.NewClaimsClient(conn)
	claim := got.GetClaimId()
	if _, err := claims.ConfirmClaim(bounded, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: id, ClaimId: claim}); err != nil {
		l.failed("confirm: " + err.Error())
	}
	pause(ctx, l.life/2, l.life*3/2)
	k.destroy(id)
	if _, err := claims.ReleaseClaim(bounded, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: id, ClaimId: claim}); err != nil {
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

// answered looks at an answer: every host of every cell was looked at, in a table that
// was whole.
func (l *upgradeLoad) answered(resp *cellgatev1.SelectDestinationsResponse, err error, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if err != nil {
		l.failures[err.Error()]++
		return
	}
	l.took = append(l.took, took)
	if resp.GetPartial() {
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
		if i < 0 || c.GetOutcome() != cellgatev1.CellOutcome_SEARCHED || int(c.GetHosts()) != len(l.cells[i].computes) {
			l.half[fmt.Sprintf("%s %s %s: %d hosts %s", c.GetCell(), c.GetSource(), c.GetOutcome(), c.GetHosts(), c.GetReason())]++
		}
	}
}

// sums are what the table of the demo shows.
func (l *upgradeLoad) sums() (sent, failures int, p99 string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.failures {
		failures += n
	}
	return l.sent, failures, quantile(slices.Clone(l.took), 0.99)
}

// demand fails the test for what must not have happened.
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
