package simulation

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cellgate/internal/norace"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

// TestMain makes the store create its process-wide state before the first bubble, because objects
// made in one bubble cannot be used in another.
func TestMain(m *testing.M) {
	if err := os.Setenv("GODEBUG", "tracebacklabels=1,"+os.Getenv("GODEBUG")); err != nil {
		slog.Error("no labels", "error", err)
		os.Exit(1)
	}
	norace.LeaveOut("TestI1_I2_I3_I4_I8_I9_Simulation")
	if err := keepOneDecision(); err != nil {
		slog.Error("no store to test with", "error", err)
		os.Exit(1)
	}
	// The goroutines of a run that is given up stay. The ignored ones belong to the tests in
	// limit_test.go.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("cellgate/systemtest/simulation.waitsForever"),
		goleak.IgnoreAnyFunction("cellgate/systemtest/simulation.sleep"), goleak.IgnoreAnyFunction("cellgate/systemtest/simulation.standsStill"),
		goleak.IgnoreAnyFunction("testing/synctest.testingSynctestTest"), goleak.IgnoreAnyFunction("testing/synctest.Test"))
}

func keepOneDecision() error {
	s, err := pebbleshard.OpenMem(pebbleshard.Options{Cell: "cell", CellUUID: uuidOf(0xc, 0), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := s.PutDecisions(context.Background(), []shard.Decision{{ID: "cell.01JAB2C3D4E5F6G7H8J9KMNPQR", At: time.Now(), Body: bytes.Repeat([]byte("packed "), 100)}}); err != nil {
		return err
	}
	if _, err := s.FindDecisions(context.Background(), shard.DecisionQuery{}); err != nil {
		return err
	}
	return s.Close()
}
