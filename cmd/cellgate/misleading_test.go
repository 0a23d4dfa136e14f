package main

import (
	"strings"
	"testing"

	"cellgate/internal/norace"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A wrong claim_id is reported as wrong, and no advice is given against the right claim.
func TestClaims_UnknownClaim_OutputOmitsTheKnownOne(t *testing.T) {
	_, web, api := launchDev(t, t.TempDir())
	var placed cellgatev1.SelectDestinationsResponse
	cellgate(t, api, exitDone, &placed, "select", "--instance", leased)
	good := placed.GetDestinations()[0].GetSelected().GetClaimId()

	for _, state := range []string{"PENDING", "CONFIRMED"} {
		out, stderr, status := typed(t.Context(), "", "claims", "confirm", leased, "typo"+state, "--addr", api)
		if want := "claim typo" + state + " of instance " + leased + " is not known; the instance has claim " + good + ", " + state; status != exitRefused || !strings.Contains(stderr, want) || strings.Contains(stderr, "release") {
			t.Errorf("confirm: status %d, %s%s", status, out, stderr)
		}
		out, stderr, status = typed(t.Context(), "", "claims", "release", leased, "typo"+state, "--addr", api)
		if status != exitRefused || out != "" || !strings.Contains(stderr, "no cell knows claim typo"+state+" of instance "+leased+": nothing was released") {
			t.Errorf("release: status %d, %s%s", status, out, stderr)
		}
		if out := cellgate(t, api, exitRefused, nil, "claims", "release", leased, "typo"+state); !strings.Contains(out, `"NOT_FOUND"`) {
			t.Errorf("release -o json: %s", out)
		}
		cellgate(t, api, exitDone, nil, "claims", "confirm", leased, good)
	}
	// A refusal of any kind names its decision.
	if out, stderr, status := typed(t.Context(), "", "select", "--instance", leased, "--addr", api); status != exitRefused || !strings.HasPrefix(out, "decision cell") {
		t.Errorf("instance with a claim: status %d\n%s%s", status, out, stderr)
	}
	for _, want := range []string{"released " + good + "\n", good + " had ended already: RELEASED\n"} {
		if out, stderr, status := typed(t.Context(), "", "claims", "release", leased, good, "--addr", api); status != exitDone || out != want {
			t.Errorf("release: status %d, %q, want %q\n%s", status, out, want, stderr)
		}
	}

	// An address of REST is recognized as such.
	_, stderr, status := typed(t.Context(), "", "cells", "--addr", strings.TrimPrefix(web, "http://"))
	if status != exitUnreachable || !strings.Contains(stderr, "it speaks HTTP, not gRPC: that is the address of a REST API") || strings.Contains(stderr, "TLS") {
		t.Errorf("REST's address: status %d, %s", status, stderr)
	}

	// So does one for want of a host.
	out, stderr, status := typed(t.Context(), "", "select", "--memory-mb", "999999999", "--addr", api)
	_, id, found := strings.Cut(out, "\ndecision ")
	if status != exitRefused || !found || !strings.HasPrefix(id, "cell") || strings.Count(id, ".") != 1 {
		t.Errorf("refused: status %d\n%s%s", status, out, stderr)
	}
	out, stderr, status = typed(t.Context(), "", "select", "--memory-mb", "999999999", "--addr", api, "-o", "name")
	if status != exitRefused || out != "" || !strings.Contains(stderr, "\ndecision cell") {
		t.Errorf("-o name: status %d\n%s%s", status, out, stderr)
	}
}

func TestSample_SmallerFleet_RunsWhatCanRunAndSaysSo(t *testing.T) {
	norace.Skip(t, whatDevShows)
	out, stderr, status := typed(t.Context(), "", append([]string{"dev", "--cells", "2", "--hosts", "100", "--data", t.TempDir(), "--sample", "--once"}, freePorts...)...)
	for _, want := range []string{
		"OTHERWISE (placed by default): nova_request_spec.requested_destination.cell: there is no cell",
		"OTHERWISE (placed by default): 0 of 200 hosts: ",
		" 0 unexpected The sample is written for the default configuration and fleet; here 5 came otherwise, with 2 cells of 100 hosts, not 3 of 300",
	} {
		if status != exitDone || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("status %d, not said: %q\n%s", status, want, stderr)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}
