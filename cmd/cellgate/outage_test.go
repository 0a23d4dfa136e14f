package main

import (
	"strings"
	"testing"
)

// A fleet that is gone is seen: in the cell's log and in the list of cells.
func TestACellWithoutHostsSaysSo(t *testing.T) {
	cell := launch(t, true, append(cellArgs(t.TempDir()), "--service-down-time", "1s", "--heartbeat-every", "200ms")...)
	door := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
	cell.await(`msg="cell is ready"`)
	gw := launch(t, true, "gateway", "--drain-delay", "0s", "--cell", "cell1="+door, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
	api := gw.await(`msg="gateway starts".* grpc=(\S+)`)[1]
	gw.follow()
	// Until the cell has had the chance to show its newest version.
	await := func(state string) {
		t.Helper()
		for {
			out, stderr, status := typed(t.Context(), "", "cells", "--addr", api)
			if status != exitDone || t.Context().Err() != nil {
				t.Fatalf("cells: status %d\n%s%s", status, out, stderr)
			}
			if strings.Contains(out, state) {
				return
			}
		}
	}
	await(" no hosts ")
	fleet := launch(t, true, "agent", "--cell", "cell1", "--replica", door, "--hosts", "5")
	fleet.await(`msg="every host is registered"`)
	fleet.follow()
	await(" available ")
	fleet.stop()
	cell.await(`level=ERROR msg="no host of the cell is up.* up=0 hosts=5 names="cell1-r01-h00`)
	await(" no hosts up ")
	cell.follow()
	gw.stop()
	cell.stop()
}
