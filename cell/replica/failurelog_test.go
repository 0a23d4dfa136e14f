package replica

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
)

func TestFailureLog_ManyFailures_LoggedEveryFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := failureLog{log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 600 {
			l.note(3, fault.New(fault.CellUnavailable, "no connection"))
			time.Sleep(100 * time.Millisecond)
		}
		if text := log.String(); strings.Count(text, "\n") != 12 || strings.Count(text, "failed=1\n") != 1 || strings.Count(text, "failed=50") != 11 {
			t.Errorf("a minute of failures:\n%s", text)
		}
	})
}
