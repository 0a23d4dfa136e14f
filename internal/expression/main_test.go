package expression

import (
	"os"
	"testing"

	"cellgate/internal/norace"
)

func TestMain(m *testing.M) {
	norace.LeaveOut("TestAnswersAreThoseOfTheNaive", "TestCosts")
	os.Exit(m.Run())
}
