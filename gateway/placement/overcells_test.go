package placement_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/placement"
	"cellgate/gateway/placement/cells"
	"cellgate/internal/celltest"
	"cellgate/internal/rpc"
	"cellgate/shard/pebbleshard"
)

// overCells returns a function that makes a backend over two empty cells, and stops the cells of the previous backend.
// New roots go to the first cell.
func overCells(t *testing.T) func() placement.Backend {
	stop := func() {}
	t.Cleanup(func() { stop() })
	return func() placement.Backend {
		t.Helper()
		stop()
		log := slog.New(slog.DiscardHandler)
		running := map[string]celltest.Cell{}
		var list []cellclient.CellConfig
		for i, name := range []string{"one", "two"} {
			uuid := fmt.Sprintf("cccccccc-0000-4000-8000-%012d", i+1)
			store, err := pebbleshard.OpenMem(pebbleshard.Options{Cell: name, CellUUID: uuid, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			running[name] = celltest.Run(t, celltest.Config{Name: name, UUID: uuid, Store: store})
			list = append(list, cellclient.CellConfig{Name: name, UUID: uuid, Replicas: []string{name}})
		}
		cfg := cellclient.Config{ProposeBudget: time.Minute, ClaimBudget: time.Minute, Breaker: cellclient.BreakerConfig{
			Failures: 5, OpenFor: time.Second, ProbeEvery: time.Minute, ProbeBudget: time.Second,
		}}
		all, err := cellclient.New(list, cfg, cellclient.Deps{Log: log, Now: time.Now, Dial: func(target string) (*grpc.ClientConn, error) {
			return rpc.Dial("passthrough:///"+target, grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) {
				return running[name].Connect(ctx)
			}))
		}})
		if err != nil {
			t.Fatal(err)
		}
		stop = func() {
			all.Wait()
			all.Close()
			for _, c := range running {
				c.Stop()
				if err := c.Store.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		return cells.New(cells.Config{DefaultCell: "one", Budget: time.Minute, Patience: time.Minute}, cells.Deps{Cells: all, Log: log})
	}
}

func TestGabbi_OverCells_PlacementsOwnSuite(t *testing.T) { placement.RunGabbi(t, overCells(t)) }

func TestDifferential_OverCells_AnswersArePlacements(t *testing.T) {
	placement.CompareWithPlacement(t, overCells(t))
}

func TestAPI_RecordedRequestsOverCells_AnswersArePlacements(t *testing.T) {
	placement.ReplayRecorded(t, overCells(t))
}
