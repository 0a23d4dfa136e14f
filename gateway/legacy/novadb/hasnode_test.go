package novadb

import (
	"testing"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/fault"
)

func TestHasNode_LiveDeletedAndUnknown(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 2)
		w.do("UPDATE compute_nodes SET deleted = id WHERE id = ?", 2)
		for i, want := range map[int]bool{1: true, 2: false, 3: false} {
			if got, err := HasNode(t.Context(), w.conf, uuid(i)); got != want || err != nil {
				t.Errorf("node %d: %v, %v; want %v", i, got, err, want)
			}
		}
		away := w.conf
		away.Database.URL = "mysql://nova@127.0.0.1:1/nova"
		if _, err := HasNode(t.Context(), away, uuid(1)); fault.KindOf(err) != fault.CellUnavailable {
			t.Errorf("a database that is away: %v", err)
		}
	})
}
