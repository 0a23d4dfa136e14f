package novadb

import (
	"testing"

	"cellgate/gateway/legacy/legacytest"
)

// The data of the API database are read again only if any of them changed. Values that only
// change places count as changed.
func TestRefreshReadsTheAPIDatabaseWhenItChanged(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 4)
		for a := 1; a <= 2; a++ {
			w.api.Insert(t, "aggregates", legacytest.Row{"id": a, "uuid": otherUUID, "name": []string{"", "rack1", "rack2"}[a]})
			w.api.Insert(t, "aggregate_hosts", legacytest.Row{"id": a, "host": name(a), "aggregate_id": a})
			w.api.Insert(t, "aggregate_metadata", legacytest.Row{"id": a, "aggregate_id": a, "key": "availability_zone", "value": []string{"", "az1", "az2"}[a]})
		}
		x := w.load()
		if x.Read.HostMappings != 4 || x.Read.Aggregates != 6 {
			t.Fatalf("a load reads %+v", x.Read)
		}
		for _, c := range []struct {
			change               string
			mappings, aggregates bool
		}{
			{"", false, false},
			{"UPDATE host_mappings SET updated_at = created_at", false, false},
			{"UPDATE host_mappings SET cell_id = 2 WHERE host = 'host4'", true, true},
			{"", false, false},
			{"UPDATE aggregate_metadata SET value = CASE value WHEN 'az1' THEN 'az2' ELSE 'az1' END", false, true},
			{"UPDATE aggregate_hosts SET aggregate_id = 3 - aggregate_id", false, true},
			{"UPDATE aggregates SET name = 'rack9' WHERE id = 1", false, true},
			{"DELETE FROM aggregate_hosts WHERE id = 1", false, true},
			{"", false, false},
		} {
			if c.change != "" {
				change(t, w.api, c.change)
			}
			y, err := w.Refresh(t.Context(), x)
			if err != nil {
				t.Fatal(err)
			}
			if got := y.Read; got.HostMappings > 0 != c.mappings || got.Aggregates > 0 != c.aggregates {
				t.Errorf("after %q it reads %+v", c.change, got)
			}
			if diff := differ(y, w.load()); diff != "" {
				t.Errorf("after %q refresh and load differ: %s", c.change, diff)
			}
			x = y
		}
	})
}
