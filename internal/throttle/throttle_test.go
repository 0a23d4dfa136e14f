package throttle

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestWarn_ManyTimes_OneLineAKeyAndInterval(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	l := New(slog.New(slog.NewTextHandler(&out, nil)), func() time.Time { return now }, 10*time.Second)
	warn := func(key string, n int) { l.Warn(t.Context(), key, n, "lost", "cell", key) }
	lines := func(want ...string) {
		t.Helper()
		var got []string
		for line := range strings.Lines(out.String()) {
			got = append(got, line[strings.Index(line, "cell="):len(line)-1])
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	warn("a", 1)
	warn("a", 2)
	warn("b", 1)
	now = now.Add(9 * time.Second)
	warn("a", 3)
	lines("cell=a count=1", "cell=b count=1")
	now = now.Add(time.Second)
	warn("a", 4)
	warn("a", 1)
	lines("cell=a count=1", "cell=b count=1", "cell=a count=9")
}
