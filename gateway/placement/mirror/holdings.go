package mirror

import (
	"context"

	"golang.org/x/sync/errgroup"

	"cellgate/gateway/placement"
)

// Held is a provider, and what consumers hold of it: class → amount, by consumer.
type Held struct {
	*placement.Provider
	By map[string]map[string]int64
}

// Holdings reads all providers with what consumers hold of them, in Placement's order, and writes nothing. Each
// provider is of one generation. A provider that is deleted meanwhile is left out.
func (c *Client) Holdings(ctx context.Context, parallel int) ([]Held, error) {
	listed, err := c.providers(ctx, "")
	if err != nil {
		return nil, err
	}
	all := make([]Held, len(listed))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range listed {
		g.Go(func() (err error) {
			p, err := c.contents(ctx, &listed[i])
			if err != nil || p == nil { // deleted, or changed since it was listed
				p, err = c.provider(ctx, listed[i].UUID)
			}
			if err != nil || p == nil {
				return err
			}
			held, err := c.holders(ctx, p.UUID)
			all[i] = Held{Provider: p, By: map[string]map[string]int64{}}
			for consumer, h := range held {
				all[i].By[consumer] = h.Resources
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	there := all[:0]
	for _, h := range all {
		if h.Provider != nil {
			there = append(there, h)
		}
	}
	return there, nil
}
