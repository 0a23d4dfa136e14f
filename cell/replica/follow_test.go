package replica

import (
	"maps"
	"testing"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// A new position replaces the previous one. Lanes that the journal dropped are not in it any more,
// and entries that arrived directly in between count.
func TestAPositionDoesNotNameDroppedLanes(t *testing.T) {
	own, other, dropped := shard.LaneID{Replica: "a", Incarnation: 2}, shard.LaneID{Replica: "b", Incarnation: 1}, shard.LaneID{Replica: "a", Incarnation: 1}
	f := newJournal()
	f.open(own)
	f.moveTo(shard.Cursor{other: 3, dropped: 7})
	f.noteOwn(shard.Entry{Lane: own, Seq: 1}, func([]shard.Change) {})
	f.moveTo(shard.Cursor{other: 4})
	if want := (shard.Cursor{own: 1, other: 4}); !maps.Equal(f.Position(), want) {
		t.Errorf("the position is %v, want %v", f.Position(), want)
	}
}

func TestAwaitFresh_JournalIsNoLongerRead_Fails(t *testing.T) {
	j := newJournal()
	close(j.over)
	if err := j.AwaitFresh(t.Context()); fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("it fails with %v", err)
	}
}
