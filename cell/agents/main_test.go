package agents

import (
	"testing"

	"go.uber.org/goleak"

	"cellgate/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(pgtest.Stop)) }
