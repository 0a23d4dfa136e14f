package systemtest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cellgate/internal/norace"
	"cellgate/internal/pgtest"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

// TestMain makes the store create its process-wide state before the first bubble, because objects
// made in one bubble cannot be used in another.
//
// In a process started with replicaEnv it serves a replica instead.
func TestMain(m *testing.M) {
	if f := strings.Fields(os.Getenv(replicaEnv)); len(f) == 4 {
		if err := serveReplica(f[0], f[1], f[2] == "true", f[3]); err != nil {
			slog.Error("the replica ended", "error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	norace.LeaveOut("TestAnAbortOnTheHostEndsAConfirmedClaim", "TestAnAbortOnTheHostGivesTheRoomBack", "TestI3_CallersThatGiveUpAndRepeatAtOnce",
		"TestI4_WhatACallGivenUpClaimedIsGoneSoon", "TestLostOffersAndVerdicts", "TestLostReplies",
		"TestHostsWhoseStatesAreRefusedTakeInstances", "TestNoTextOfACallerIsTakenForASickCell")
	if err := keepOneDecision(); err != nil {
		slog.Error("no store to test with", "error", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(pgtest.Stop))
}

func keepOneDecision() error {
	s, err := pebbleshard.OpenMem(pebbleshard.Options{Cell: "cell", CellUUID: uuidOf(0xc, 0), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := s.PutDecisions(context.Background(), []shard.Decision{{ID: "cell.01JAB2C3D4E5F6G7H8J9KMNPQR", At: time.Now(), Body: bytes.Repeat([]byte("packed "), 100)}}); err != nil {
		return err
	}
	if page, err := s.FindDecisions(context.Background(), shard.DecisionQuery{}); err != nil || len(page.Decisions) != 1 {
		return fmt.Errorf("%d decisions are found: %v", len(page.Decisions), err)
	}
	return s.Close()
}
