package comparison

import (
	"testing"

	"go.uber.org/goleak"

	"cellgate/gateway/legacy/legacytest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(legacytest.Stop))
}
