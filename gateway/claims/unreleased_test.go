package claims

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUnreleasedClaimsAreLoggedOnceACellAndInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		u := &unreleased{log: slog.New(slog.NewTextHandler(&log, nil))}
		stop := u.start()
		for range 40 {
			u.add("cell1", 2, errors.New("slow"))
			u.add("cell2", 1, errors.New("slower"))
		}
		time.Sleep(unreleasedEvery + time.Millisecond) // virtual
		synctest.Wait()
		text := log.String()
		if strings.Count(text, "\n") != 2 || !strings.Contains(text, "cell=cell1 claims=80 releases=40 error=slow\n") ||
			!strings.Contains(text, "cell=cell2 claims=40 releases=40 error=slower\n") {
			t.Errorf("after an interval:\n%s", text)
		}
		time.Sleep(3 * unreleasedEvery) // virtual: nothing to say
		u.add("cell1", 1, errors.New("once more"))
		stop()
		if text := log.String(); strings.Count(text, "\n") != 3 || !strings.Contains(text, `cell=cell1 claims=1 releases=1 error="once more"`) {
			t.Errorf("at the end:\n%s", text)
		}
	})
}
