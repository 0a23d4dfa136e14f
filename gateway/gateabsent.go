package gateway

import (
	"context"
	"fmt"
	"time"

	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// While the legacy database gives no instances, no host of its rows can be imported, and
// nothing can be claimed on those that the shard lacks. The cell is asked then which hosts
// it has, and the stand-in proposes these alone. A request that none of them can take does
// not find the cell full: it is unavailable to it.

const (
	// listAgain is how long the hosts that the shard has are gone by.
	listAgain = 10 * time.Second
	// maxAbsent is how often a request goes on in a cell after it chose a host that the
	// shard lacks.
	maxAbsent = 4
	// hostPage is how many hosts a cell is asked for at once.
	hostPage = 1000
)

// goOnWithout has the request go on with the hosts that the cell's shard has, after it
// chose one that cannot be imported. It reports false when the cell does not say which
// these are.
func (s *selection) goOnWithout(ctx context.Context, cell int) bool {
	if s.absent == nil {
		s.absent = make([]int, len(s.views))
	}
	if s.absent[cell]++; s.absent[cell] > maxAbsent {
		return false
	}
	w := s.views[cell].gate
	bounded, cancel := context.WithTimeout(ctx, stepBudget(ctx, w.cell.claimBudget))
	defer cancel()
	if err := w.onlyThere(bounded, s.began); err != nil {
		s.g.log.DebugContext(ctx, "a cell does not say which hosts its shard has", "cell", w.cell.cfg.Name, "error", err)
		return false
	}
	return true
}

// loseAbsent loses the cells whose stand-in leaves out hosts that the shard lacks: one of
// those might have passed.
func (s *selection) loseAbsent(ctx context.Context) {
	for i := range s.views {
		if v := &s.views[i]; v.standIn && s.skip[i] == "" {
			if err := v.gate.absent(); err != nil {
				s.markUnavailable(ctx, i, err)
			}
		}
	}
}

// onlyThere has the stand-in propose only hosts that the shard has, by what the cell said
// at a time or later, until imports work again.
func (w *gate) onlyThere(ctx context.Context, since time.Time) error {
	select {
	case w.listing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-w.listing }()
	if w.noImports.Load() == nil || !w.listed.IsZero() && !w.listed.Before(since) {
		return nil
	}
	at := w.g.now()
	hosts := []string{}
	for in, more := (&cellv1.ListHostsRequest{PageSize: hostPage}), true; more; {
		page, err := w.ListHosts(ctx, in)
		if err != nil {
			return err
		}
		for _, h := range page.GetHosts() {
			hosts = append(hosts, h.GetHostUuid())
			in.AfterServiceHost, in.AfterHostUuid = h.GetServiceHost(), h.GetHostUuid()
		}
		more = page.GetMore() && len(page.GetHosts()) > 0
	}
	w.parts.StandIn.OnlyThere(hosts)
	w.listed = at
	return nil
}

// importsAgain has the stand-in propose all hosts.
func (w *gate) importsAgain() {
	w.listing <- struct{}{} // whoever has it is bounded by the budgets of its calls
	defer func() { <-w.listing }()
	// First the hosts: nobody takes a cell for full that leaves some out.
	if !w.listed.IsZero() {
		w.parts.StandIn.AllThere()
		w.listed = time.Time{}
	}
	w.noImports.Store(nil)
}

// absent says that hosts are left out since they cannot be imported; nil when none is.
func (w *gate) absent() error {
	if t := w.noImports.Load(); t != nil && w.parts.StandIn.Absent() > 0 {
		return w.notImported(t.err)
	}
	return nil
}

// absentText is absent as a part of why the stand-in answers; "" for none.
func (w *gate) absentText() string {
	if err := w.absent(); err != nil {
		return fmt.Sprintf("; hosts left out: %d, %s", w.parts.StandIn.Absent(), reasonOf(err))
	}
	return ""
}
