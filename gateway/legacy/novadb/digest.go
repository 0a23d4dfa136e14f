package novadb

import (
	"context"
	"database/sql"
	"strings"
)

// apiDigests are digests of what the API database has of a cell, made by its server: as
// long as they are the same, so are the rows. They stand for every column that is read,
// and no time is compared. Two changes that cancel out in all sums go unseen until the
// next Load: for rows at random one in 2^60 or so.
type apiDigests struct {
	// cell is the id of its row in cell_mappings.
	cell int64
	// mappings are of the cell; aggregates are the three tables of all aggregates.
	mappings, aggregates string
}

// digested is a table of which a digest is made: every row counts by its columns, once as
// it is and once by its id, so that values that change places are seen.
type digested struct{ table, columns, where string }

func (t digested) sql(d dialect) string {
	hash := d.hash(t.columns)
	return "SELECT '" + t.table + "', COUNT(*), MAX(id), SUM(" + hash + "), SUM(" + hash + " * (id % 65521 + 1)) FROM " + t.table + t.where
}

var apiTables = []digested{
	{"host_mappings", `id, host`, " WHERE cell_id = ?"},
	{"aggregate_hosts", `id, aggregate_id, host`, ""},
	{"aggregates", `id, COALESCE(uuid, ''), COALESCE(name, '')`, ""},
	{"aggregate_metadata", `id, aggregate_id, CHAR_LENGTH("key"), "key", value`, ""},
}

// digestAPI asks for the digests of a cell.
func (r *Reader) digestAPI(ctx context.Context, s *session, cell int64) (apiDigests, error) {
	out := apiDigests{cell: cell}
	var parts []string
	for _, t := range apiTables {
		parts = append(parts, t.sql(s.dialect))
	}
	_, err := s.each(ctx, strings.Join(parts, " UNION ALL "), []any{cell}, func(rows *sql.Rows) error {
		var table string
		var sums [4]sql.NullString
		if err := rows.Scan(&table, &sums[0], &sums[1], &sums[2], &sums[3]); err != nil {
			return err
		}
		into := &out.aggregates
		if table == "host_mappings" {
			into = &out.mappings
		}
		*into += table
		for _, sum := range sums {
			*into += " " + sum.String
		}
		*into += ";"
		return nil
	})
	return out, err
}

// hash is an integer of 32 bits of a row's columns.
func (d dialect) hash(columns string) string {
	if d == mysqlDialect {
		return "CRC32(CONCAT_WS('|', " + columns + "))"
	}
	return "hashtext(concat_ws('|', " + columns + "))::bigint"
}
