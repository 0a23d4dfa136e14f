package expression

import (
	"os"
	"testing"

	"cellgate/internal/raced"
)

func TestMain(m *testing.M) {
	raced.LeaveOut("TestAnswersAreThoseOfTheNaive", "TestCosts")
	os.Exit(m.Run())
}
