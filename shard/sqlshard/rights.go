package sqlshard

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// tables are those that a store reads and writes. It only reads schema_version.
var tables = []string{
	"cell", "claims", "clock", "consumers", "custom_names", "decision_names", "decisions", "ended_claims", "gate",
	"group_members", "host_namespaces", "host_usages", "hosts", "journal", "lanes",
	"pins", "server_groups", "transfers",
}

// lackingRights lists the rights that the session's role lacks, each with its table.
const lackingRights = `SELECT wanted || ' of ' || relation FROM
(SELECT unnest($1::text[]) AS relation) AS relations, (SELECT unnest($2::text[]) AS wanted) AS rights
WHERE $1::text[] IS NOT NULL AND $2::text[] IS NOT NULL AND NOT has_table_privilege(relation, wanted) ORDER BY relation, wanted`

// checkRights fails if the session's role lacks a right on a table.
func (s *Store) checkRights(ctx context.Context, c *pgx.Conn) error {
	lacking, err := texts(ctx, c, lackingRights, tables, []string{"SELECT", "INSERT", "UPDATE", "DELETE"})
	if err != nil {
		return err
	}
	versions, err := texts(ctx, c, lackingRights, []string{"schema_version"}, []string{"SELECT"})
	if lacking = append(lacking, versions...); err == nil && len(lacking) > 0 {
		err = fmt.Errorf("its role has not all rights that it needs; it lacks %s", strings.Join(lacking, ", "))
	}
	return err
}
