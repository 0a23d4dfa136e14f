package cell

import (
	"log/slog"
	"maps"
	"testing"
	"time"

	"cellgate/shard"
)

// A position takes the place of the one before: lanes that a journal dropped are named
// no more, and what came by itself meanwhile counts.
func TestAPositionDoesNotNameDroppedLanes(t *testing.T) {
	own, other, dropped := shard.LaneID{Replica: "a", Incarnation: 2}, shard.LaneID{Replica: "b", Incarnation: 1}, shard.LaneID{Replica: "a", Incarnation: 1}
	f := newFollower(nil, nil, time.Second, nil, nil, slog.New(slog.DiscardHandler))
	f.opened(own)
	f.moved(shard.Cursor{other: 3, dropped: 7})
	f.committed(shard.Entry{Lane: own, Seq: 1}, func([]shard.Change) {})
	f.moved(shard.Cursor{other: 4})
	if want := (shard.Cursor{own: 1, other: 4}); !maps.Equal(f.position(), want) {
		t.Errorf("the position is %v, want %v", f.position(), want)
	}
}
