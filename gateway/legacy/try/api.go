package try

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"cellgate/gateway/legacy/novadb"
	"cellgate/schedule"
	"cellgate/schedule/nova"
)

// queryTimeout bounds a query: each of them may read a whole table of a large cloud.
const queryTimeout = 10 * time.Minute

// apiRows are the rows that are read of the API database.
type apiRows struct {
	flavors []nova.Flavor
	specs   []requestSpec
	// members are the instances of the specs' server groups that exist, by the group's uuid; nil if they were not read.
	members map[string][]string
	unread  []Unread
}

// requestSpec is a row of request_specs: the instance, and the RequestSpec, or why it cannot be read.
type requestSpec struct {
	instance  string
	primitive map[string]any
	problem   string
}

// readAPI reads the flavors, the newest request specs and their server groups, each table in a read-only transaction. A table that the
// user may not read, or that the database lacks, is left out and recorded in unread.
func readAPI(ctx context.Context, d novadb.Database, requests int) (rows apiRows, err error) {
	db, err := novadb.OpenPool(d, queryTimeout)
	if err != nil {
		return rows, err
	}
	defer func() { _ = db.Close() }() // it was read
	read := func(table, query string, do func(*sql.Rows) error) error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // nothing was written
		switch err = eachRow(ctx, tx, query, do); {
		case novadb.IsDenied(err):
			rows.unread = append(rows.unread, Unread{Table: table, Grant: grant(d.URL, table, err)})
		case novadb.LacksTable(err):
			rows.unread = append(rows.unread, Unread{Table: table})
		default:
			return err
		}
		return nil
	}
	at := map[int64]int{} // where a flavor is, by its id
	err = read("flavors", "SELECT id, name, vcpus, memory_mb, COALESCE(root_gb, 0), COALESCE(ephemeral_gb, 0), swap FROM flavors ORDER BY name", func(r *sql.Rows) error {
		var id int64
		f := nova.Flavor{ExtraSpecs: map[string]string{}}
		err := r.Scan(&id, &f.Name, &f.VCPUs, &f.MemoryMB, &f.RootGB, &f.EphemeralGB, &f.SwapMB)
		at[id], rows.flavors = len(rows.flavors), append(rows.flavors, f)
		return err
	})
	if err == nil {
		err = read("flavor_extra_specs", "SELECT s.flavor_id, s.key, COALESCE(s.value, '') FROM flavor_extra_specs s", func(r *sql.Rows) error {
			var id int64
			var key, value string
			err := r.Scan(&id, &key, &value)
			if n, there := at[id]; there {
				rows.flavors[n].ExtraSpecs[key] = value
			}
			return err
		})
	}
	if err == nil {
		err = read("request_specs", fmt.Sprintf("SELECT instance_uuid, spec FROM request_specs ORDER BY id DESC LIMIT %d", requests), func(r *sql.Rows) error {
			var s requestSpec
			var text string
			if err := r.Scan(&s.instance, &text); err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(text), &s.primitive); err != nil {
				s.problem = "its spec is no JSON: " + err.Error()
			}
			rows.specs = append(rows.specs, s)
			return nil
		})
	}
	if err == nil {
		err = rows.readGroups(read)
	}
	return rows, err
}

// readGroups reads the members of the specs' server groups, if there are any.
func (a *apiRows) readGroups(read func(table, query string, do func(*sql.Rows) error) error) error {
	var named []string
	for i := range a.specs {
		if _, _, id := a.specs[i].group(); id != "" {
			named = append(named, "'"+id+"'")
		}
	}
	if len(named) == 0 {
		return nil
	}
	before, byID, members := len(a.unread), map[int64]string{}, map[string][]string{}
	which := " WHERE uuid IN (" + strings.Join(named, ", ") + ")"
	err := read("instance_groups", "SELECT id, uuid FROM instance_groups"+which, func(r *sql.Rows) error {
		var id int64
		var uuid string
		err := r.Scan(&id, &uuid)
		byID[id], members[uuid] = uuid, []string{}
		return err
	})
	if err == nil && len(a.unread) == before {
		err = read("instance_group_member", "SELECT group_id, instance_uuid FROM instance_group_member WHERE instance_uuid IS NOT NULL AND group_id IN (SELECT id FROM instance_groups"+which+")", func(r *sql.Rows) error {
			var id int64
			var instance string
			err := r.Scan(&id, &instance)
			members[byID[id]] = append(members[byID[id]], instance)
			return err
		})
	}
	if err == nil && len(a.unread) == before {
		a.members = members
	}
	return err
}

// group gives the fields of the spec and of its server group, and the group's uuid; "" for none.
func (s *requestSpec) group() (spec, group map[string]any, uuid string) {
	spec, _ = s.primitive["nova_object.data"].(map[string]any)
	object, _ := spec["instance_group"].(map[string]any)
	group, _ = object["nova_object.data"].(map[string]any)
	text, _ := group["uuid"].(string)
	if id, err := schedule.ParseID(text); err == nil {
		uuid = id.String()
	}
	return spec, group, uuid
}

// joinGroup completes the spec's server group, as Nova does (nova/objects/request_spec.py, _from_db_object): rows of
// request_specs have no members, and a group that was deleted does not count. on has the instances on hosts.
func (s *requestSpec) joinGroup(members map[string][]string, on map[string]novadb.Instance) {
	spec, group, id := s.group()
	if id == "" || members == nil {
		return
	}
	all, exists := members[id]
	if !exists {
		delete(spec, "instance_group")
		if hints, has := spec["scheduler_hints"].(map[string]any); has {
			delete(hints, "group")
		}
		return
	}
	uuids, hosts := []any{}, []any{}
	for _, m := range all {
		uuids = append(uuids, m)
		if i, there := on[m]; there && m != s.instance {
			hosts = append(hosts, i.Host)
		}
	}
	group["members"], group["hosts"] = uuids, hosts
}

// deniedTo matches the user in the error of MySQL and MariaDB for a table that it may not read.
var deniedTo = regexp.MustCompile(`to user ('[^']*'@'[^']*')`)

// grant is the statement that lets the user of a database's URL read a table.
func grant(database, table string, denied error) string {
	u, err := url.Parse(database)
	if err != nil {
		return "" // cannot happen: the URL has worked
	}
	user := u.User.Username()
	if m := deniedTo.FindStringSubmatch(denied.Error()); m != nil {
		table, user = strings.Trim(u.Path, "/")+"."+table, m[1]
	}
	return fmt.Sprintf("GRANT SELECT ON %s TO %s;", table, user)
}

// FindCell gives the uuid in cell_mappings of the cell whose database_connection ends with the path of a database's
// URL, else of the only cell beside cell0. If neither is unique, it gives an error.
func FindCell(ctx context.Context, api novadb.Database, cell string) (string, error) {
	u, err := url.Parse(cell)
	if err != nil {
		return "", failed("cell", errors.New("the URL cannot be read")) // not shown: it may have a password
	}
	db, err := novadb.OpenPool(api, queryTimeout)
	if err != nil {
		return "", failed("api", err)
	}
	defer func() { _ = db.Close() }() // it was read
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return "", failed("api", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	var all, named, shown []string
	err = eachRow(ctx, tx, "SELECT uuid, COALESCE(name, ''), COALESCE(database_connection, '') FROM cell_mappings WHERE uuid <> '00000000-0000-0000-0000-000000000000'", func(r *sql.Rows) error {
		var uuid, name, connection string
		err := r.Scan(&uuid, &name, &connection)
		all, shown = append(all, uuid), append(shown, fmt.Sprintf("%s (%s)", uuid, name))
		if path, _, _ := strings.Cut(connection, "?"); strings.HasSuffix(path, "/"+strings.Trim(u.Path, "/")) {
			named = append(named, uuid)
		}
		return err
	})
	switch {
	case err != nil:
		return "", failed("api", err)
	case len(named) == 1:
		return named[0], nil
	case len(all) == 1:
		return all[0], nil
	}
	slices.Sort(shown)
	return "", fmt.Errorf("--cell-uuid: say which; not one cell of cell_mappings has this database: %s", strings.Join(shown, ", "))
}

func eachRow(ctx context.Context, tx *sql.Tx, query string, do func(*sql.Rows) error) error {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := do(rows); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}
