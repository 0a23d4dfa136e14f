package shard

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"cellgate/internal/norace"
)

// TestMain lets properties be checked 3,000 times, unless the command line says
// otherwise (-rapid.checks).
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "3000"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	norace.LeaveOut("TestDecideABatchIsItsOperationsOneByOne", "TestI1I2I9_DecideIsTheNaiveRules")
	os.Exit(m.Run())
}
