package sqlshard

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// tables are those that a store reads and writes; it only reads schema_version.
var tables = []string{
	"cell", "claims", "clock", "consumers", "custom_names", "decision_names", "decisions", "ended_claims", "gate",
	"group_members", "host_namespaces", "host_usages", "hosts", "journal", "lanes",
	"pins", "server_groups", "transfers",
}

// lackingRights lists the tables that the role of a session may not do with what a store
// does, and what that is.
const lackingRights = `SELECT wanted || ' of ' || relation FROM
(SELECT unnest($1::text[]) AS relation) AS relations, (SELECT unnest($2::text[]) AS wanted) AS rights
WHERE $1::text[] IS NOT NULL AND $2::text[] IS NOT NULL AND NOT has_table_privilege(relation, wanted) ORDER BY relation, wanted`

// checkRights fails when the session's role may not read or write a table.
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
