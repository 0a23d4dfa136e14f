package replica

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestStoreTimeWatch_TenYearsAhead_IsLoggedOnceAndRead(t *testing.T) {
	var text bytes.Buffer
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := &storeTimeWatch{Machine: func() time.Time { return now }, log: slog.New(slog.NewTextHandler(&text, nil))}
	w.compare(now.Add(maxStoreTimeApart))
	if text.Len() > 0 {
		t.Errorf("within the bound is logged: %s", &text)
	}
	const years = 10 * 365 * 24 * time.Hour
	for range 3 {
		w.compare(now.Add(years))
	}
	if n := strings.Count(text.String(), "are apart"); n != 1 || w.Ahead() != years {
		t.Errorf("logged %d times, reads %v: %s", n, w.Ahead(), &text)
	}
	w.compare(now)
	w.compare(now.Add(-years))
	if n := strings.Count(text.String(), "are apart"); n != 2 || !strings.Contains(text.String(), "agree again") {
		t.Errorf("logged %d times: %s", n, &text)
	}
}
