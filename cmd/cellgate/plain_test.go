package main

import (
	"strings"
	"testing"

	"cellgate/internal/testaddr"
	"cellgate/internal/testwait"
)

// plain fails if a text has words of a driver.
func plain(t *testing.T, command, text string) {
	t.Helper()
	for _, bad := range []string{"desc =", "dial tcp", "rpc error", "transport", "connection refused", "context deadline"} {
		if strings.Contains(text, bad) {
			t.Errorf("%s: %q in\n%s", command, bad, text)
		}
	}
}

var reading = [][]string{{"cells"}, {"hosts"}, {"claims", "list"}, {"select"}, {"select", "--dry-run"}}

func TestCommands_NoGateway_ErrorNamesTheAddress(t *testing.T) {
	dead := testaddr.Dead(t)
	hung := listen(t)
	says := func(args []string, addr, timeout, form, want string) {
		t.Helper()
		out, stderr, status := typed(t.Context(), "", append(args, "--addr", addr, "--timeout", timeout, "-o", form)...)
		plain(t, strings.Join(args, " "), out+stderr)
		if status != exitUnreachable || !strings.Contains(stderr, addr) || strings.Count(stderr, want) != 1 {
			t.Errorf("%v: status %d, %q, want %q once", args, status, stderr, want)
		}
	}
	for _, args := range reading {
		for _, form := range []string{"table", "json"} {
			says(args, dead, testwait.Limit.String(), form, "could not be reached")
		}
	}
	// A command probes for HTTP for two seconds, so one command is enough.
	says(reading[0], hung.Addr().String(), "200ms", "json", "did not answer in time")
}

func TestCells_NoCell_SaysSoPlainly(t *testing.T) {
	gw := launch(t, true, "gateway", "--drain-delay", "0s", "--cell", "cell1="+testaddr.Dead(t), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
	api := gw.await(`msg="gateway starts".* grpc=(\S+)`)[1]
	for _, args := range reading {
		for _, form := range []string{"table", "json"} {
			out, stderr, _ := typed(t.Context(), "", append(args, "--addr", api, "-o", form)...)
			plain(t, strings.Join(args, " "), out+stderr)
			if args[0] == "cells" && !strings.Contains(out, "could not be reached") {
				t.Errorf("cells: %s", out)
			}
		}
	}
	gw.stop()
}
