package comparison

import (
	"testing"

	"go.uber.org/goleak"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/lifecycle"
)

func TestMain(m *testing.M) {
	// All three schedulers use the garbage collection settings of cellgate.
	lifecycle.TuneGC()
	goleak.VerifyTestMain(m, goleak.Cleanup(legacytest.Stop))
}
