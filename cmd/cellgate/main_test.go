package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/norace"
)

// asCellgate makes the test binary behave as cellgate, for tests that kill it.
const asCellgate = "CELLGATE_TEST_BINARY_IS_CELLGATE"

func TestMain(m *testing.M) {
	if os.Getenv(asCellgate) != "" {
		main()
	}
	if config := os.Getenv(asChaosClient); config != "" {
		if err := chaosClientMain(config); err != nil {
			fmt.Fprintln(os.Stderr, "chaos client:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if load := os.Getenv(asOverloadClient); load != "" {
		if err := overloadClientMain(load); err != nil {
			fmt.Fprintln(os.Stderr, "overload client:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	norace.LeaveOut("TestHelpExamples_EveryLine_RunsAndHarmsNothing", "TestSample_SmallerFleet_RunsWhatCanRunAndSaysSo", "TestBundledSampleGoesAsExpectedTwice",
		"TestSampleThatGoesWrongEndsWith1", "TestStaticBinary", "TestReleases_ProcessesOfTwoBinaries_NeighboursWorkTogether", "TestDocsNameWhatIsThere")
	goleak.VerifyTestMain(m, goleak.Cleanup(legacytest.Stop))
}

// whatDevShows is why the tests of the bundled sample are left out with the race detector.
const whatDevShows = "thousands of hosts in one process: minutes with the race detector, which other tests of dev have"

// typed runs a command line as a shell would. It returns the output and the exit status.
func typed(ctx context.Context, stdin string, args ...string) (out, err string, status int) {
	var o, e bytes.Buffer
	status = run(ctx, args, terminal{in: strings.NewReader(stdin), out: &o, err: &e})
	return o.String(), e.String(), status
}
