package cell

import (
	"maps"
	"testing"
	"time"
)

func TestLivenessGivesGraceAndComesBack(t *testing.T) {
	now := time.Unix(1000, 0)
	l := newLiveness(60*time.Second, func() time.Time { return now })
	l.watch("loaded", false)
	l.heard("talks")
	if at, up := l.lastSeen("loaded"); !at.IsZero() || !up {
		t.Errorf("never heard: last seen %v, up %v", at, up)
	}
	if at, up := l.lastSeen("talks"); !at.Equal(now) || !up {
		t.Errorf("just heard: last seen %v, up %v", at, up)
	}

	now = now.Add(59 * time.Second)
	l.heard("talks")
	l.check()
	if got := l.takeChanged(); len(got) != 0 {
		t.Errorf("within the time: %v", got)
	}
	now = now.Add(time.Second)
	l.check()
	if got := l.takeChanged(); !maps.Equal(got, map[string]bool{"loaded": true}) {
		t.Errorf("after the time: %v", got)
	}
	l.watch("loaded", false)
	if _, up := l.lastSeen("loaded"); up {
		t.Error("a new row of a silent host brought it back")
	}
	l.heard("loaded")
	if got := l.takeChanged(); !maps.Equal(got, map[string]bool{"loaded": false}) {
		t.Errorf("heard again: %v", got)
	}
	if _, up := l.lastSeen("nobody"); up {
		t.Error("an unknown host is up")
	}
}
