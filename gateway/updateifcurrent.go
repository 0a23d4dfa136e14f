package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

const (
	// overtakenFor bounds the retries of a host's change that other changes overtake: services that
	// change one host at the same time overtake each other.
	overtakenFor = 5 * time.Second
	// overtakenPause bounds the doubling pause between those retries, which begins with a millisecond. Jitter makes
	// each pause half as long to one and a half times as long.
	overtakenPause = 128 * time.Millisecond
)

// updateIfCurrent has a cell change a host if its generation is still the one that the cell has
// now: a late message finds a newer generation and changes nothing (docs/adr/0022). An overtaken
// change is retried over the newer generation while its caller waits. known is the generation that
// was looked up already, 0 for none. change sends it.
func updateIfCurrent[T any](ctx context.Context, g *Gateway, c *cellclient.Cell, host string, known int64, change func(generation int64) (T, error)) (T, error) {
	var none T
	if known == 0 {
		var err error
		if known, err = g.generationOf(ctx, c, host); err != nil {
			return none, err
		}
	}
	end := g.now().Add(overtakenFor)
	for pause := time.Millisecond; ; pause = min(2*pause, overtakenPause) {
		got, err := change(known)
		newest := newestOf(err)
		if newest <= known {
			return got, cellclient.ChangeError(ctx, c, err)
		}
		known = newest
		wait := pause/2 + rand.N(pause)
		if g.now().Add(wait).After(end) || cellclient.Pause(ctx, wait) != nil {
			break
		}
	}
	return none, fault.New(fault.Contended, "other changes overtook this one of host %s each time", host).With("cell", c.Name())
}

// generationOf gives the generation of a host in a cell; 1, the lowest, if the cell does not
// know the host.
func (g *Gateway) generationOf(ctx context.Context, c *cellclient.Cell, host string) (int64, error) {
	got, err := cellclient.CallFor(ctx, c, host, g.cfg.ClaimBudget, &cellv1.ListHostsRequest{HostUuid: host, PageSize: 1}, cellv1.CellSchedulerClient.ListHosts)
	return generationIn(got), err
}

func generationIn(got *cellv1.ListHostsResponse) int64 {
	generation := int64(1)
	for _, h := range got.GetHosts() {
		generation = max(generation, h.GetGeneration())
	}
	return generation
}

// newestOf gives the current generation that a STALE_GENERATION refusal names; 0 for any
// other error.
func newestOf(err error) int64 {
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.StaleGeneration {
		return 0
	}
	newest, err := strconv.ParseInt(e.Metadata["generation"], 10, 64)
	if err != nil {
		return 0
	}
	return newest
}

// cellOfHost gives the cell of that name, with generation 0. Without a name it searches all
// cells for the host, and gives the host's generation as well. A host that several cells have is
// refused; a cell that does not answer within ProposeBudget does not count.
func (g *Gateway) cellOfHost(ctx context.Context, name, host string) (*cellclient.Cell, int64, error) {
	cells, err := g.cells.Selected(name)
	if err != nil {
		return nil, 0, err
	}
	if name != "" {
		return cells[0], 0, nil
	}
	has := func(got *cellv1.ListHostsResponse) bool { return len(got.GetHosts()) > 0 }
	replies := cellclient.Search(ctx, g.cells, cells, g.cfg.ProposeBudget, has, func(ctx context.Context, c *cellclient.Cell) (*cellv1.ListHostsResponse, error) {
		return cellclient.Call(ctx, c, g.cfg.ClaimBudget, &cellv1.ListHostsRequest{HostUuid: host, PageSize: 1}, cellv1.CellSchedulerClient.ListHosts)
	})
	var found []cellclient.Reply[*cellv1.ListHostsResponse]
	var names []string
	for _, r := range replies {
		if has(r.Got) {
			found, names = append(found, r), append(names, r.Cell.Name())
		}
	}
	switch len(found) {
	case 0:
		return nil, 0, cellclient.NotFound(replies, "host "+host)
	case 1:
		return found[0].Cell, generationIn(found[0].Got), nil
	}
	return nil, 0, fault.Invalid("host_uuid", "%s", inSeveralCells(host, names))
}
