package main

import (
	"context"
	"strings"
	"testing"

	"cellgate/internal/testwait"
)

// A cell whose hosts are all down is reported in the cell's log and in the list of cells.
func TestACellWithoutHostsSaysSo(t *testing.T) {
	cell := launch(t, true, append(cellArgs(t.TempDir()), "--service-down-time", "1s", "--heartbeat-every", "200ms")...)
	cellAddr := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
	cell.await(`msg="cell is ready"`)
	gw := launch(t, true, "gateway", "--drain-delay", "0s", "--cell", "cell1="+cellAddr, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
	api := gw.await(`msg="gateway starts".* grpc=(\S+)`)[1]
	// Repeated until the cell has shown its newest version.
	await := func(state string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
		defer cancel()
		for {
			out, stderr, status := typed(ctx, "", "cells", "--addr", api)
			if status != exitDone || ctx.Err() != nil {
				t.Fatalf("no cell is%sin time: status %d\n%s%s", state, status, out, stderr)
			}
			if strings.Contains(out, state) {
				return
			}
		}
	}
	await(" no hosts ")
	fleet := launch(t, true, "agent", "--cell", "cell1", "--replica", cellAddr, "--hosts", "5")
	fleet.await(`msg="every host is registered"`)
	await(" available ")
	fleet.stop()
	cell.await(`level=ERROR msg="no host of the cell is up.* up=0 hosts=5 names="?cell1-r01-h00`)
	await(" no hosts up ")
	gw.stop()
	cell.stop()
}
