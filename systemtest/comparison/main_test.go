package comparison

import (
	"testing"

	"go.uber.org/goleak"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/lifecycle"
)

func TestMain(m *testing.M) {
	// All three ways collect their garbage as the programs do.
	lifecycle.TuneGC()
	goleak.VerifyTestMain(m, goleak.Cleanup(legacytest.Stop))
}
