package novadb

import (
	"context"
	"database/sql"
	"strings"
)

// apiDigests are digests of a cell's part of the API database, made by its server: if they
// are equal, so are the rows. They cover every column that is read, without comparing times.
// Two changes that cancel out in all sums are not seen until the next Load; for random rows
// the chance is about one in 2^60.
type apiDigests struct {
	// cell is the id of its row in cell_mappings.
	cell int64
	// mappings is of the cell's host mappings; aggregates is of the three tables of all aggregates.
	mappings, aggregates string
}

// digested is a table with a digest. Every row adds the hash of its columns, once plain and
// once multiplied by its id, so that an exchange of values between rows is seen.
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

// digestAPI reads the digests of a cell.
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

// hash is the SQL expression of a 32-bit integer of a row's columns.
func (d dialect) hash(columns string) string {
	if d == mysqlDialect {
		return "CRC32(CONCAT_WS('|', " + columns + "))"
	}
	return "hashtext(concat_ws('|', " + columns + "))::bigint"
}
