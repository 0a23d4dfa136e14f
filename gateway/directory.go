package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

const (
	// summaryEvery is how often a cell's summary is read, summaryBudget how long
	// that may take.
	summaryEvery  = 2 * time.Second
	summaryBudget = time.Second
	// summaryMaxAge is how old a summary may be to leave a cell out by.
	summaryMaxAge = 10 * time.Second
)

// summary is a cell's summary and when it was read.
type summary struct {
	*cellv1.GetSummaryResponse
	at time.Time
}

// watchCells keeps all summaries fresh until ctx ends.
func (g *Gateway) watchCells(ctx context.Context) {
	var all, first sync.WaitGroup
	first.Add(len(g.cells))
	for _, c := range g.cells {
		all.Go(func() { g.watch(ctx, c, first.Done) })
	}
	first.Wait()
	close(g.ready)
	all.Wait()
}

// watch reads one cell's summary again and again. It logs when a cell comes or
// goes, not each failure.
func (g *Gateway) watch(ctx context.Context, c *cell, first func()) {
	available := true
	tick := time.NewTicker(summaryEvery)
	defer tick.Stop()
	for {
		c.watched.Store(g.now().UnixNano())
		_, err := g.readSummary(ctx, c, summaryBudget)
		if (err == nil) != available && ctx.Err() == nil {
			available = err == nil
			if available {
				g.log.InfoContext(ctx, "cell is available", "cell", c.cfg.Name)
			} else {
				g.log.WarnContext(ctx, "cell is unavailable", "cell", c.cfg.Name, "error", err)
			}
		}
		if first != nil {
			first()
			first = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// readSummary asks a cell for its summary and keeps it, if it is the configured
// cell.
func (g *Gateway) readSummary(ctx context.Context, c *cell, budget time.Duration) (*cellv1.GetSummaryResponse, error) {
	s, err := call(ctx, c, budget, &cellv1.GetSummaryRequest{}, cellv1.CellSchedulerClient.GetSummary)
	if err != nil {
		return nil, err
	}
	if who := c.strangerIn(s); who != "" {
		c.stranger.Store(&who)
		return nil, fault.New(fault.CellUnavailable, "%s", who)
	}
	c.stranger.Store(nil)
	c.summary.Store(&summary{GetSummaryResponse: s, at: g.now()})
	return s, nil
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

// cellNamed finds a cell by its name or uuid; nil when none is configured so.
func (g *Gateway) cellNamed(word string) *cell {
	for _, c := range g.cells {
		if c.cfg.Name == word || c.uuid() == word {
			return c
		}
	}
	return nil
}
