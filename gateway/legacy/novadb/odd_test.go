package novadb

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/mariatest"
)

// Databases of releases before Pike have no services.uuid, those before Rocky no cell_mappings.disabled, those before
// Train no instances.hidden. Once they have these columns, the values count: a hidden instance is another cell's.
func TestSchemasOfOlderReleases(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 3)
		w.cell.Exec(t, "ALTER TABLE services DROP COLUMN uuid; ALTER TABLE instances DROP COLUMN hidden")
		w.cell.Insert(t, "instances", w.instance(1), w.instance(2))
		w.api.Exec(t, "ALTER TABLE cell_mappings DROP COLUMN disabled")
		w.open() // it has not seen the columns
		x := w.load()
		if len(x.Hosts) != 3 || len(x.Services) != 3 || x.Services[0].UUID != "" || x.Services[0].Version != 61 || x.CellDisabled || x.CellUUID != cellUUID {
			t.Errorf("%d hosts, services %+v, disabled: %t", len(x.Hosts), x.Services, x.CellDisabled)
		}
		live := func(want ...int64) {
			t.Helper()
			var passed []int64
			all, _ := w.pass(InstancePoint{})
			for _, i := range all {
				if !i.Deleted {
					passed = append(passed, i.ID)
				}
			}
			if !slices.Equal(passed, want) {
				t.Errorf("%v are in a pass, want %v", passed, want)
			}
		}
		live(1, 2)
		w.cell.Exec(t, "ALTER TABLE services ADD COLUMN uuid varchar(36)")
		w.do("UPDATE services SET uuid = ? WHERE id = 2", otherUUID)
		column := "tinyint(1)"
		if k == legacytest.PostgreSQL {
			column = "boolean"
		}
		w.api.Exec(t, "ALTER TABLE cell_mappings ADD COLUMN disabled "+column)
		w.cell.Exec(t, "ALTER TABLE instances ADD COLUMN hidden "+column)
		w.do("UPDATE instances SET hidden = ?, updated_at = ? WHERE id = 2", true, w.now)
		live(1)
		if all, _ := w.pass(InstancePoint{Since: w.now.Add(-time.Hour)}); !slices.ContainsFunc(all, func(i Instance) bool { return i.ID == 2 && i.Deleted && !i.Gone }) {
			t.Errorf("a hidden instance is gone: %+v", all)
		}
		change(t, w.api, "UPDATE cell_mappings SET disabled = ? WHERE id = 1", true)
		if x = w.refresh(x); x.Services[1].UUID != otherUUID || !x.CellDisabled {
			t.Errorf("services %+v, disabled: %t", x.Services, x.CellDisabled)
		}
	})
}

// MySQL lets columns have values that Nova does not write: other numbers as truth values, and dates that do not exist.
func TestOddTruthsAndDates(t *testing.T) {
	w := newWorld(t, legacytest.MariaDB, 5)
	w.cell.Exec(t, `SET SESSION sql_mode = '';
		UPDATE services SET disabled = 2 WHERE id = 1; UPDATE services SET forced_down = -1 WHERE id = 2; UPDATE services SET disabled = NULL, forced_down = NULL WHERE id = 3;
		UPDATE services SET last_seen_up = '0000-00-00 00:00:00', created_at = UTC_TIMESTAMP() WHERE id = 4; UPDATE services SET last_seen_up = '2025-00-10 01:02:03' WHERE id = 5;
		UPDATE compute_nodes SET updated_at = '0000-00-00 00:00:00' WHERE id = 1; UPDATE compute_nodes SET created_at = '2025-01-00 00:00:00', updated_at = NULL WHERE id = 2;
		UPDATE compute_nodes SET updated_at = '9999-12-31 23:59:59' WHERE id = 3;
		SET SESSION sql_mode = DEFAULT`)
	change(t, w.api, "UPDATE cell_mappings SET disabled = 2 WHERE id = 1")
	x := w.load()
	if len(x.Hosts) != 5 || !x.CellDisabled {
		t.Fatalf("%d hosts, left out %v, disabled: %t", len(x.Hosts), x.LeftOut, x.CellDisabled)
	}
	var down, disabled []bool
	for _, h := range x.Hosts {
		down, disabled = append(down, h.Down), append(disabled, h.Disabled)
	}
	if want := []bool{false, true, false, false, true}; !slices.Equal(down, want) {
		t.Errorf("down are %v, want %v", down, want)
	}
	if want := []bool{true, false, false, false, false}; !slices.Equal(disabled, want) {
		t.Errorf("disabled are %v, want %v", disabled, want)
	}
	w.refresh(x)
}

// Tables may have different collations, as after upgrades of the server, and texts of other character sets.
func TestTablesOfOtherCollations(t *testing.T) {
	w := newWorld(t, legacytest.MariaDB, 3)
	w.api.Insert(t, "aggregates", legacytest.Row{"id": 1, "uuid": otherUUID, "name": "Zürich"})
	w.api.Insert(t, "aggregate_metadata", legacytest.Row{"aggregate_id": 1, "key": "Größe", "value": "ü"})
	w.api.Insert(t, "aggregate_hosts", legacytest.Row{"host": "host2", "aggregate_id": 1}, legacytest.Row{"host": "elsewhere", "aggregate_id": 1})
	for _, of := range []string{
		"utf8mb3 COLLATE utf8mb3_unicode_ci", "utf8mb3 COLLATE utf8mb3_bin", "utf8mb4 COLLATE utf8mb4_unicode_ci", "latin1 COLLATE latin1_general_cs",
	} {
		for _, table := range []string{"aggregate_hosts", "aggregates", "aggregate_metadata"} {
			w.api.Exec(t, "SET SESSION foreign_key_checks = 0; ALTER TABLE "+table+" CONVERT TO CHARACTER SET "+of+"; SET SESSION foreign_key_checks = 1")
		}
		x := w.load()
		if in := x.host("host2").Aggregates; len(in) != 1 || in[0].Name != "Zürich" || in[0].Metadata["Größe"] != "ü" {
			t.Errorf("%s: host2 is in %+v", of, in)
		}
	}
}

// PostgreSQL lets times have values that Nova does not write.
func TestInfiniteTimes(t *testing.T) {
	w := newWorld(t, legacytest.PostgreSQL, 3)
	w.cell.Exec(t, "UPDATE compute_nodes SET updated_at = 'infinity' WHERE id = 1; UPDATE compute_nodes SET created_at = '-infinity' WHERE id = 2;"+
		"UPDATE services SET last_seen_up = 'infinity' WHERE id = 3")
	x := w.load()
	if len(x.Hosts) != 3 || x.Hosts[0].Down || !x.Hosts[2].Down {
		t.Errorf("%+v, left out %v", x.Hosts, x.LeftOut)
	}
	w.refresh(x)
}

func TestASocket(t *testing.T) {
	server := mariatest.Start(t)
	w := worldOn(t, legacytest.MariaDB, server, 2)
	u, err := url.Parse(w.conf.Database.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host, u.RawQuery = "localhost:1", "charset=utf8&unix_socket="+url.QueryEscape(server.Socket()) // nobody listens at that port
	w.conf.Database.URL = u.String()
	w.open()
	if x := w.load(); len(x.Hosts) != 2 {
		t.Errorf("%d hosts", len(x.Hosts))
	}
}
