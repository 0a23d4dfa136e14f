package gateway

import (
	"context"
	"fmt"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

const (
	// summaryEvery is how often a replica's summary is read.
	summaryEvery = 2 * time.Second
	// summaryMaxAge is how old a summary may be to leave a cell out by.
	summaryMaxAge = 10 * time.Second
)

// summary is a cell's summary and when it was read.
type summary struct {
	*cellv1.GetSummaryResponse
	at time.Time
}

// readSummary asks a cell for its summary, on a user's behalf, and keeps it.
func (g *Gateway) readSummary(ctx context.Context, c *cell) (*cellv1.GetSummaryResponse, error) {
	return try(ctx, c, callOptions{budget: c.claimBudget, fullBudget: c.claimBudget, mayRepeat: true, readOnly: true}, func(ctx context.Context, r *replica, p *pass) (*cellv1.GetSummaryResponse, error) {
		ctx, end := p.while(ctx)
		defer end()
		return g.summaryOf(ctx, r)
	})
}

// summaryOf asks a replica for its summary and keeps it, if it is of the
// configured cell. That of a replica that loads its table does not take the place of
// one to route by.
func (g *Gateway) summaryOf(ctx context.Context, r *replica) (*cellv1.GetSummaryResponse, error) {
	began, req := time.Now(), &cellv1.GetSummaryRequest{}
	s, err := r.client.GetSummary(ctx, req)
	r.cell.tel.Called(ctx, req, time.Since(began), err)
	if err != nil {
		return nil, err
	}
	c := r.cell
	if who := c.strangerIn(s); who != "" {
		if r.stranger.Swap(&who) == nil {
			g.log.WarnContext(ctx, "replica is not used", "cell", c.cfg.Name, "replica", r.addr, "reason", who)
		}
		return nil, fault.New(fault.CellUnavailable, "%s", who)
	}
	if r.stranger.Swap(nil) != nil {
		g.log.InfoContext(ctx, "replica is used", "cell", c.cfg.Name, "replica", r.addr)
	}
	told := &summary{GetSummaryResponse: s, at: g.now()}
	if r.loading.Swap(s.GetLoading()) != s.GetLoading() {
		g.log.InfoContext(ctx, "a replica loads its table, or is done", "cell", c.cfg.Name, "replica", r.addr, "loading", s.GetLoading())
	}
	r.awaits.Store(s.GetAwaitsVerdicts())
	if s.GetLoading() {
		c.unloaded.Store(told)
	} else {
		c.summary.Store(told)
	}
	return s, nil
}

// heard is the newest answer of any replica, of one that loads its table too; nil
// before the first.
func (c *cell) heard() *summary {
	s, u := c.summary.Load(), c.unloaded.Load()
	if s == nil || u != nil && u.at.After(s.at) {
		return u
	}
	return s
}

// strangerIn says how a summary's cell differs from the configured one; "" when
// it does not.
func (c *cell) strangerIn(s *cellv1.GetSummaryResponse) string {
	if s.GetCell() == c.cfg.Name && (c.cfg.UUID == "" || s.GetCellUuid() == c.cfg.UUID) {
		return ""
	}
	return fmt.Sprintf("the address of cell %s (%s) answers as cell %s (%s)", c.cfg.Name, c.cfg.UUID, s.GetCell(), s.GetCellUuid())
}

// freshSummary gives the summary to route by; nil when there is none young
// enough.
func (g *Gateway) freshSummary(c *cell) *summary {
	s := c.summary.Load()
	if s == nil || g.now().Sub(s.at) > summaryMaxAge {
		return nil
	}
	return s
}

// lastSummary is the cell's newest one, however old; nil before the first.
func (c *cell) lastSummary() *cellv1.GetSummaryResponse {
	if s := c.summary.Load(); s != nil {
		return s.GetSummaryResponse
	}
	return nil
}

// summaryAges gives the age of each cell's summary that was ever read.
func (g *Gateway) summaryAges(each func(cell string, age time.Duration)) {
	for _, c := range g.cells {
		if s := c.summary.Load(); s != nil {
			each(c.cfg.Name, g.now().Sub(s.at))
		}
	}
}

// cellNamed finds a cell by its name or uuid; nil when none is configured so.
func (g *Gateway) cellNamed(word string) *cell {
	for _, c := range g.cells {
		if c.cfg.Name == word || c.uuid() == word {
			return c
		}
	}
	return nil
}
