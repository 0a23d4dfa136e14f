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

// A store that fails for a minute is told of in a few lines; another kind of failure among
// them is told at once, and in the end what was not told yet.
func TestFailedTransactionsDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := failureLog{log: slog.New(slog.NewTextHandler(&log, nil))}
		told := func() string {
			text := log.String()
			log.Reset()
			return text
		}
		for range 600 {
			l.note(3, fault.New(fault.CellUnavailable, "no connection"))
			time.Sleep(100 * time.Millisecond)
		}
		if text := told(); strings.Count(text, "\n") != 12 || strings.Count(text, "more_before=0") != 1 || strings.Count(text, "more_before=49") != 11 {
			t.Errorf("a minute of failures:\n%s", text)
		}
		l.note(1, fault.New(fault.OutcomeUnknown, "not heard of"))
		if text := told(); !strings.Contains(text, "not heard of") {
			t.Errorf("another kind of failure: %q", text)
		}
		l.flush(false)
		if text := told(); !strings.Contains(text, "count=49") || !strings.Contains(text, "no connection") {
			t.Errorf("what was due when a transaction was done: %q", text)
		}
		l.note(1, fault.New(fault.OutcomeUnknown, "again not heard of"))
		l.flush(false)
		if text := told(); text != "" {
			t.Errorf("within the time of the one before: %q", text)
		}
		l.flush(true)
		if text := told(); !strings.Contains(text, "count=1") || !strings.Contains(text, "again not heard of") {
			t.Errorf("when all is over: %q", text)
		}
	})
}
