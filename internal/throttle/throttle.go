package throttle

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Log writes at most one line of a key in an interval. Safe for concurrent use.
type Log struct {
	log   *slog.Logger
	now   func() time.Time
	every time.Duration

	mu   sync.Mutex
	keys map[string]*written
}

// written is when a line of a key was written last, and how many things came since.
type written struct {
	at    time.Time
	since int
}

// New makes a Log. Its keys are never forgotten: they are of a closed set.
func New(log *slog.Logger, now func() time.Time, every time.Duration) *Log {
	return &Log{log: log, now: now, every: every, keys: map[string]*written{}}
}

// Warn writes a line about n things. Less than the interval after a line of the same key it only counts them: the
// attribute count of the next line has them too.
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
