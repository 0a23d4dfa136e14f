package try

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"cellgate/gateway/legacy/novadb"
	"cellgate/schedule/nova"
)

// queryTimeout bounds a query: each of them may read a whole table of a large cloud.
const queryTimeout = 10 * time.Minute

// apiRows are the rows that are read of the API database.
type apiRows struct {
	flavors []nova.Flavor
	specs   []requestSpec
	unread  []Unread
}

// requestSpec is a row of request_specs: the instance, and the RequestSpec as JSON.
type requestSpec struct{ instance, spec string }

// readAPI reads the flavors and the newest request specs, each table in a read-only transaction. A table that the
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
			err := r.Scan(&s.instance, &s.spec)
			rows.specs = append(rows.specs, s)
			return err
		})
	}
	return rows, err
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
