package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cellgate/internal/norace"
	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// binaryOfRelease builds cellgate as another release.
func binaryOfRelease(t *testing.T, release string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "cellgate")
	cmd := exec.Command("go", "build", "-ldflags", "-X cellgate/internal/rpc.release="+release, "-o", out, ".")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// TestReleases_ProcessesOfTwoBinaries_NeighboursWorkTogether upgrades a system as
// docs/how-to/operations.md describes. In make test-long it then upgrades one cell by one release
// too many.
func TestReleases_ProcessesOfTwoBinaries_NeighboursWorkTogether(t *testing.T) {
	norace.Skip(t, "it links another binary; the processes are other programs")
	next := binaryOfRelease(t, "2")
	s := startSystem(t, 2, 3, nil)
	placeOne := func(step string) {
		t.Helper()
		s.awaitReady(testwait.Limit)
		s.awaitHosts(testwait.Limit)
		var got cellgatev1.SelectDestinationsResponse
		cellgate(t, s.api, exitDone, &got, "select", "--confirm")
		if n := len(got.GetDestinations()); n != 1 {
			t.Fatalf("%s: %d destinations", step, n)
		}
	}
	replace := func(m *member, binary string) {
		t.Helper()
		m.kill()
		m.binary = binary
		m.start()
	}
	placeOne("all of release 1")
	for _, m := range s.cells {
		replace(m, next)
	}
	placeOne("cells of release 2")
	replace(s.gateway, next)
	placeOne("cells and gateway of release 2")
	if !testlong.On() {
		return // TestRefuseRelease_Neighbours_WorkTogether has the refusals
	}

	replace(s.cells[1], binaryOfRelease(t, "3"))
	// The gateway of release 2 works with cells of release 3; agents of release 1 do not.
	s.awaitReady(testwait.Limit)
	s.awaitLog(s.agents[1], "the caller is of release 1, the cell of release 3")
	replace(s.agents[1], next)
	placeOne("one cell of release 3")

	replace(s.gateway, "")
	s.await(testwait.Limit, "a gateway of release 1 does not use a cell of release 3", func(ctx context.Context) (bool, string) {
		list, err := cellgatev1.NewCellsClient(s.conn).ListCells(ctx, &cellgatev1.ListCellsRequest{})
		if err != nil || len(list.GetCells()) != 2 {
			return false, fmt.Sprint(list, err)
		}
		first, second := list.GetCells()[0], list.GetCells()[1]
		return first.GetAvailable() && !second.GetAvailable() && strings.Contains(second.GetReason(), "of release 3"), fmt.Sprint(list)
	})
}

// awaitLog waits until a process's log has a text.
func (s *realSystem) awaitLog(m *member, text string) {
	s.t.Helper()
	s.await(testwait.Limit, m.name+" logs "+text, func(context.Context) (bool, string) {
		log, err := os.ReadFile(m.log)
		return err == nil && strings.Contains(string(log), text), m.tail()
	})
}
