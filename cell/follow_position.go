package cell

import (
	"maps"

	"cellgate/shard"
)

// opened names the lane whose entries come by themselves, before the first does.
func (f *follower) opened(own shard.LaneID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.own = own
}

// committed notes an entry of the own lane and has its changes shown, none when
// the journal brought it before its transaction was answered: other lanes may have gone on
// from it since, and that they ended a claim is forgotten after a while (rows.caughtUp). show is called before the position moves on from here; it must not
// take f.mu.
func (f *follower) committed(e shard.Entry, show func(changes []shard.Change)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Seq > 0 && e.Seq <= f.cursor[f.own] {
		show(nil)
		return
	}
	show(e.Changes)
	if e.Seq > 0 {
		f.ahead[e.Seq] = struct{}{}
	}
	f.closeGap()
}

// closeGap moves the own lane's position over what came by itself.
func (f *follower) closeGap() {
	for seq := range f.ahead {
		if seq <= f.cursor[f.own] {
			delete(f.ahead, seq)
		}
	}
	for {
		next := f.cursor[f.own] + 1
		if _, ok := f.ahead[next]; !ok {
			return
		}
		delete(f.ahead, next)
		f.cursor[f.own] = next
	}
}

// moved takes the position after a reading, or of what was loaded: lanes that it does
// not name are dropped. Entries of the own lane may have come meanwhile.
func (f *follower) moved(to shard.Cursor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.cursor, func(lane shard.LaneID, _ uint64) bool {
		_, named := to[lane]
		return !named && lane != f.own
	})
	for lane, seq := range to {
		f.cursor[lane] = max(f.cursor[lane], seq)
	}
	f.closeGap()
}

func (f *follower) position() shard.Cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.cursor)
}

// others reports whether an entry of another replica was read: what that one wrote last
// may not be in the table yet.
func (f *follower) others() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for lane := range f.cursor {
		if lane.Replica != f.own.Replica {
			return true
		}
	}
	return false
}
