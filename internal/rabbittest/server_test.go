package rabbittest

import (
	"net"
	"testing"

	"go.uber.org/goleak"

	"cellgate/internal/testlong"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(Stop)) }

func TestServer_KilledAndRun_AnswersAtTheSameAddress(t *testing.T) {
	testlong.Only(t, "TestRun_BrokerRestarts_ConsumesAgain in gateway/bus")
	s := Start(t)
	before := s.URL()
	s.Kill(t)
	if c, err := net.Dial("tcp", s.Addr()); err == nil {
		_ = c.Close()
		t.Error("a killed broker still listens")
	}
	s.Run(t)
	if s.URL() != before {
		t.Errorf("%s, before %s", s.URL(), before)
	}
	if err := s.Open(t).Close(); err != nil {
		t.Error(err)
	}
}
