package novadb

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	guuid "github.com/google/uuid"

	"cellgate/schedule"
)

// apiData is a cell's part of the API database.
type apiData struct {
	sameHost func(string) string
	// mapped are the hosts mapped to the cell, normalized by sameHost.
	mapped map[string]bool
	// aggregates by host, in Nova's spelling, in the order of their ids.
	aggregates map[string][]schedule.Aggregate
}

// readAPI reads the cell's part of the API database.
func (r *Reader) readAPI(ctx context.Context, x *Snapshot) error {
	x.api = &apiData{sameHost: r.api.sameHost, mapped: map[string]bool{}, aggregates: map[string][]schedule.Aggregate{}}
	return r.api.transaction(ctx, func(s *session, _ time.Time) error {
		cell, err := r.findCell(ctx, s, x)
		if err != nil {
			return err
		}
		hosts, err := r.readMapped(ctx, s, x.api, cell)
		if err != nil {
			return err
		}
		return r.readAggregates(ctx, s, x.api, hosts)
	})
}

// readMapped reads which hosts are mapped to the cell, and gives them in Nova's spelling.
func (r *Reader) readMapped(ctx context.Context, s *session, a *apiData, cell int64) (hosts []string, err error) {
	_, err = s.pages(ctx, list{
		table: "host_mappings", page: stampPage, max: r.conf.MaxRows, args: []any{cell},
		text: "SELECT id, host FROM host_mappings WHERE cell_id = ? AND id > ? ORDER BY id LIMIT ?",
	}, func(rows *sql.Rows) (id int64, err error) {
		var host string
		err = rows.Scan(&id, &host)
		a.mapped[a.sameHost(host)], hosts = true, append(hosts, host)
		return id, err
	})
	return hosts, err
}

// findCell gives the id of the cell's row, and stores its other columns in the snapshot.
func (r *Reader) findCell(ctx context.Context, s *session, x *Snapshot) (id int64, err error) {
	by, value := "uuid", r.conf.CellUUID
	if value == "" {
		by, value = "name", r.conf.Cell
	}
	found := 0
	disabled, err := s.column(ctx, "cell_mappings", "disabled", "false") // not before Rocky
	if err != nil {
		return 0, err
	}
	_, err = s.each(ctx, `SELECT id, uuid, name, coalesce(transport_url, ''), `+disabled+` FROM cell_mappings WHERE `+by+` = ? LIMIT ?`, []any{value, 2}, func(rows *sql.Rows) error {
		var name sql.NullString
		var disabled truth
		found++
		if err := rows.Scan(&id, &x.CellUUID, &name, &x.TransportURL, &disabled); err != nil {
			return err
		}
		x.CellDisabled = bool(disabled)
		return nil
	})
	if err == nil && found != 1 {
		what := "has no cell with that " + by
		if found > 1 {
			what = "has several cells with that " + by
		}
		err = r.api.unavailable(NotMapped, nil, fmt.Sprintf("%s in cell_mappings: %s", what, value))
	}
	return id, err
}

// readAggregates reads the aggregates of the cell's hosts. It does not join tables by host,
// since their collations may differ.
func (r *Reader) readAggregates(ctx context.Context, s *session, a *apiData, hosts []string) error {
	members, most := map[int64][]string{}, 10*r.conf.MaxRows
	n, err := inFew(ctx, s, "SELECT aggregate_id, host FROM aggregate_hosts WHERE host IN ("+listOfFew+")", hosts, func(rows *sql.Rows) error {
		var in int64
		var host string
		err := rows.Scan(&in, &host)
		members[in] = append(members[in], host)
		return err
	})
	if err != nil {
		return err
	}
	if n > most {
		return s.unavailable(TooManyRows, nil, fmt.Sprintf("has more than %d rows in aggregate_hosts", most))
	}
	all, uuids := map[int64]*schedule.Aggregate{}, map[string]bool{}
	_, err = s.pages(ctx, list{
		table: "aggregates", page: stampPage, max: r.conf.MaxRows,
		text: "SELECT id, uuid, name FROM aggregates WHERE id > ? ORDER BY id LIMIT ?",
	}, func(rows *sql.Rows) (id int64, err error) {
		var as, name sql.NullString
		err = rows.Scan(&id, &as, &name)
		uuid := aggregateUUID(id)
		if own, err := schedule.ParseID(as.String); err == nil && !uuids[own.String()] {
			uuid = own.String()
		}
		uuids[uuid] = true // also of other cells' aggregates, so that a substitute is the same for every cell
		if len(members[id]) > 0 {
			all[id] = &schedule.Aggregate{UUID: uuid, Name: name.String, Metadata: map[string]string{}}
		}
		return id, err
	})
	if err != nil {
		return err
	}
	_, err = s.pages(ctx, list{
		table: "aggregate_metadata", page: stampPage, max: most,
		text: `SELECT id, aggregate_id, "key", value FROM aggregate_metadata WHERE id > ? ORDER BY id LIMIT ?`,
	}, func(rows *sql.Rows) (id int64, err error) {
		var of int64
		var key, value string
		err = rows.Scan(&id, &of, &key, &value)
		if one := all[of]; one != nil {
			one.Metadata[key] = value
		}
		return id, err
	})
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		for _, host := range members[id] {
			a.aggregates[host] = append(a.aggregates[host], *all[id])
		}
	}
	return nil
}

// aggregateUUID gives the substitute for an aggregate's uuid that is NULL, invalid, or another aggregate's too, by its id
// in the API database.
func aggregateUUID(id int64) string {
	return guuid.NewSHA1(guuid.NameSpaceURL, fmt.Appendf(nil, "cellgate:aggregate:%d", id)).String()
}
