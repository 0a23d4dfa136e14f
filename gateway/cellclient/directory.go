package cellclient

import (
	"context"
	"fmt"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

const (
	// SummaryEvery is how often a replica's summary is read.
	SummaryEvery = 2 * time.Second
	// SummaryMaxAge is how old a summary may be for leaving its cell out of a request.
	SummaryMaxAge = 10 * time.Second
)

// Summary is a cell's summary and when it was read.
type Summary struct {
	*cellv1.GetSummaryResponse
	At time.Time
}

// ReadSummary asks a cell for its summary, for a user's call, and stores it.
func (cs *Cells) ReadSummary(ctx context.Context, c *Cell) (*cellv1.GetSummaryResponse, error) {
	return try(ctx, c, callOptions{budget: c.ClaimBudget, fullBudget: c.ClaimBudget, mayRepeat: true, readOnly: true}, func(ctx context.Context, r *Replica, p *pass) (*cellv1.GetSummaryResponse, error) {
		ctx, end := p.while(ctx)
		defer end()
		return cs.summaryOf(ctx, r)
	})
}

// summaryOf asks a replica for its summary, and stores it if it is of the configured cell.
// The summary of a replica that loads its table does not replace the one to route by.
func (cs *Cells) summaryOf(ctx context.Context, r *Replica) (*cellv1.GetSummaryResponse, error) {
	began, req := time.Now(), &cellv1.GetSummaryRequest{}
	s, err := r.client.GetSummary(ctx, req)
	r.cell.Telemetry.Called(ctx, req, time.Since(began), err)
	if err != nil {
		return nil, err
	}
	c := r.cell
	if who := c.wrongCellIn(s); who != "" {
		if r.wrongCell.Swap(&who) == nil {
			cs.log.WarnContext(ctx, "replica is not used", "cell", c.Name(), "replica", r.Addr, "reason", who)
		}
		return nil, fault.New(fault.CellUnavailable, "%s", who)
	}
	if r.wrongCell.Swap(nil) != nil {
		cs.log.InfoContext(ctx, "replica is used", "cell", c.Name(), "replica", r.Addr)
	}
	summary := &Summary{GetSummaryResponse: s, At: cs.now()}
	if r.loading.Swap(s.GetLoading()) != s.GetLoading() {
		cs.log.InfoContext(ctx, "a replica began or finished loading its table", "cell", c.Name(), "replica", r.Addr, "loading", s.GetLoading())
	}
	r.awaits.Store(s.GetAwaitsVerdicts())
	if s.GetLoading() {
		c.unloaded.Store(summary)
	} else {
		c.summary.Store(summary)
	}
	return s, nil
}

// NewestSummary is the newest answer of any replica, even of one that loads its table; nil
// before the first.
func (c *Cell) NewestSummary() *Summary {
	s, u := c.summary.Load(), c.unloaded.Load()
	if s == nil || u != nil && u.At.After(s.At) {
		return u
	}
	return s
}

// wrongCellIn gives how a summary's cell differs from the configured one; "" if it does not.
func (c *Cell) wrongCellIn(s *cellv1.GetSummaryResponse) string {
	if s.GetCell() == c.Name() && (c.cfg.UUID == "" || s.GetCellUuid() == c.cfg.UUID) {
		return ""
	}
	return fmt.Sprintf("the address of cell %s (%s) answers as cell %s (%s)", c.Name(), c.cfg.UUID, s.GetCell(), s.GetCellUuid())
}

// RoutingSummary gives the summary to route by; nil if there is none, or it is older than SummaryMaxAge. If the cell
// cannot be asked, its last summary counts however old: there can be no newer one.
func (cs *Cells) RoutingSummary(c *Cell) *Summary {
	s := c.summary.Load()
	if s == nil || cs.now().Sub(s.At) > SummaryMaxAge && c.Unusable() == nil {
		return nil
	}
	return s
}

// LastSummary is the cell's newest summary from a replica with a loaded table, however old; nil before the first.
func (c *Cell) LastSummary() *cellv1.GetSummaryResponse {
	if s := c.summary.Load(); s != nil {
		return s.GetSummaryResponse
	}
	return nil
}

// LastSummaryAt is LastSummary with the time when it was read.
func (c *Cell) LastSummaryAt() *Summary { return c.summary.Load() }

// SummaryAges passes the age of each cell's summary to each; a cell without a summary is left out.
func (cs *Cells) SummaryAges(each func(cell string, age time.Duration)) {
	for _, c := range cs.All {
		if s := c.summary.Load(); s != nil {
			each(c.Name(), cs.now().Sub(s.At))
		}
	}
}

// Named finds a cell by its name or uuid; nil if there is none. A cell whose uuid is not known yet is not named "".
func (cs *Cells) Named(nameOrUUID string) *Cell {
	for _, c := range cs.All {
		if nameOrUUID != "" && (c.Name() == nameOrUUID || c.UUID() == nameOrUUID) {
			return c
		}
	}
	return nil
}

// Unwatched names a cell with a replica that was not probed for longer than most; "" for none.
func (cs *Cells) Unwatched(most time.Duration) string {
	for _, c := range cs.All {
		for _, r := range c.Replicas {
			at := r.watched.Load()
			if d := cs.now().Sub(time.Unix(0, at)); at > 0 && d > most {
				return fmt.Sprintf("cell %s was to be asked every %v, and was not for %v", c.Name(), SummaryEvery, d.Round(time.Second))
			}
		}
	}
	return ""
}
