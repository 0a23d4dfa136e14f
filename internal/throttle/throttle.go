package throttle

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Log writes at most one line for each key in an interval. Safe for concurrent use.
type Log struct {
	log   *slog.Logger
	now   func() time.Time
	every time.Duration

	mu   sync.Mutex
	keys map[string]*written
}

// written is when the last line of a key was written, and how many events came since.
type written struct {
	at    time.Time
	since int
}

// New makes a Log. It never forgets keys, which must be from a closed set.
func New(log *slog.Logger, now func() time.Time, every time.Duration) *Log {
	return &Log{log: log, now: now, every: every, keys: map[string]*written{}}
}

// Warn writes a line about n events. If the last line with the same key is more recent than the
// interval, it only counts the events; the attribute count of the next line includes them.
func (l *Log) Warn(ctx context.Context, key string, n int, message string, attrs ...any) {
	now := l.now()
	l.mu.Lock()
	last, ok := l.keys[key]
	if !ok {
		last = &written{}
		l.keys[key] = last
	}
	last.since += n
	count := last.since
	due := !ok || now.Sub(last.at) >= l.every
	if due {
		last.at, last.since = now, 0
	}
	l.mu.Unlock()
	if due {
		l.log.WarnContext(ctx, message, append(attrs, "count", count)...)
	}
}
