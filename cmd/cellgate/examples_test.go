package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// The shipped files make a system, with free ports, the test's data directories and fewer hosts.
func TestShippedExamplesRunAsASet(t *testing.T) {
	dir := t.TempDir()
	replace := []string{"127.0.0.1:920", "127.0.0.1:0 #", "127.0.0.1:930", "127.0.0.1:0 #", "hosts: 1000", "hosts: 20", ".cellgate/", dir + "/"}
	// example writes a changed copy of a file and gives its path.
	example := func(name string, more ...string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "examples", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.NewReplacer(append(more, replace...)...).Replace(string(text))
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	var cellAddrs []string
	for n := 1; n <= 3; n++ {
		shipped := fmt.Sprintf("127.0.0.1:910%d", n)
		cell := launch(t, true, "cell", "--config", example(fmt.Sprintf("cell%d", n), shipped, "127.0.0.1:0"))
		cellAddr := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
		cellAddrs = append(cellAddrs, shipped, cellAddr)
	}
	for n := 1; n <= 3; n++ {
		fleet := launch(t, true, "agent", "--config", example(fmt.Sprintf("agent%d", n), cellAddrs...))
		fleet.await(`msg="every host is registered"`)
	}
	gw := launch(t, true, "gateway", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--drain-delay", "0s", "--config", example("gateway", cellAddrs...))
	api := gw.await(`msg="gateway starts".* grpc=(\S+)`)[1]

	var cells cellgatev1.ListCellsResponse
	cellgate(t, api, exitDone, &cells, "cells")
	for i, c := range cells.GetCells() {
		if !c.GetAvailable() || !c.GetEnabled() || c.GetHostsUp() < 19 || c.GetCell() != fmt.Sprintf("cell%d", i+1) {
			t.Errorf("cell %d is %v", i, c)
		}
	}
	var placed cellgatev1.SelectDestinationsResponse
	cellgate(t, api, exitDone, &placed, "select", "--cell", "cell3")
	if len(cells.GetCells()) != 3 || placed.GetDestinations()[0].GetSelected().GetCell() != "cell3" {
		t.Errorf("%d cells, placed %v", len(cells.GetCells()), &placed)
	}
	// The shards are in the directories that the files name.
	for n := 1; n <= 3; n++ {
		if _, err := os.Stat(filepath.Join(dir, "examples", fmt.Sprintf("cell%d", n), "FORMAT")); err != nil {
			t.Error(err)
		}
	}
}
