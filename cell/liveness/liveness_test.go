package liveness

import (
	"maps"
	"slices"
	"testing"
	"time"

	"cellgate/shard"
)

func TestLivenessGivesGraceAndComesBack(t *testing.T) {
	now := time.Unix(1000, 0)
	l := New(60*time.Second, func() time.Time { return now })
	l.NoteRow("loaded", false)
	l.NoteSeen("talks")
	if at, up := l.LastSeen("loaded"); !at.IsZero() || !up {
		t.Errorf("never heard: last seen %v, up %v", at, up)
	}
	if at, up := l.LastSeen("talks"); !at.Equal(now) || !up {
		t.Errorf("just heard: last seen %v, up %v", at, up)
	}

	now = now.Add(59 * time.Second)
	l.NoteSeen("talks")
	l.Check()
	if got := l.DrainChanged(); len(got) != 0 {
		t.Errorf("within the time: %v", got)
	}
	now = now.Add(time.Second)
	l.Check()
	if got := l.DrainChanged(); !maps.Equal(got, map[string]bool{"loaded": true}) {
		t.Errorf("after the time: %v", got)
	}
	l.NoteRow("loaded", false)
	if _, up := l.LastSeen("loaded"); up {
		t.Error("a new row of a silent host brought it back")
	}
	l.NoteSeen("loaded")
	if got := l.DrainChanged(); !maps.Equal(got, map[string]bool{"loaded": false}) {
		t.Errorf("heard again: %v", got)
	}
	if _, up := l.LastSeen("nobody"); up {
		t.Error("an unknown host is up")
	}
}

func TestSilence_HostsFallSilent_AreLogged(t *testing.T) {
	now := time.Unix(1000, 0)
	l := New(time.Minute, func() time.Time { return now })
	mustSay := func(when string, want ...shard.SetSilent) {
		t.Helper()
		if got := l.PendingMarks(10); !slices.Equal(got, want) {
			t.Errorf("%s %v is to be said, want %v", when, got, want)
		}
	}
	silent := func(host string) shard.SetSilent { return shard.SetSilent{HostUUID: host, Silent: true} }
	l.NoteRow("table", true)
	for _, h := range []string{"a", "b", "c"} {
		l.NoteRow(h, false)
	}
	now = now.Add(time.Minute)
	l.Check()
	mustSay("when all are silent", silent("a"), silent("b"), silent("c"))
	// The agent came back and is silent again before its row was updated.
	l.NoteSeen("a")
	mustSay("when one was heard", silent("b"), silent("c"))
	l.FollowMark("b", true)
	l.FollowMark("c", true)
	mustSay("when it was said")
	l.NoteSeen("b")
	l.NoteSeen("c")
	l.NoteSeen("c")
	mustSay("when they are heard", shard.SetSilent{HostUUID: "b"}, shard.SetSilent{HostUUID: "c"})
	if got := l.PendingMarks(1); len(got) != 1 {
		t.Errorf("one at a time: %v", got)
	}
	l.FollowMark("b", false)
	now = now.Add(time.Minute)
	l.Check()
	mustSay("when c is silent before its row says that it was heard", silent("a"), silent("b"))
	// An agent comes to a host of Nova's tables, at another replica.
	l.NoteRow("table", false)
	now = now.Add(time.Minute - time.Second)
	mustSay("within its time", silent("a"), silent("b"))
	now = now.Add(time.Second)
	mustSay("after its time", silent("a"), silent("b"), silent("table"))
	l.NoteRow("table", true)
	mustSay("when it is Nova's again", silent("a"), silent("b"))
	// Other replicas hear a, so its mark is not written until this replica hears a too.
	l.FollowMark("a", true)
	l.FollowMark("a", false)
	mustSay("when one was denied", silent("b"))
	l.NoteSeen("a")
	now = now.Add(time.Minute)
	l.Check()
	mustSay("when that was heard, and is silent again", silent("a"), silent("b"))
	// What this replica hears takes precedence.
	l.NoteSeen("a")
	if l.FollowMark("a", true) {
		t.Error("a host that is heard is down, for others do not hear it")
	}
	if !l.FollowMark("nobody", false) {
		t.Error("an unknown host is up")
	}
}
