package sqlshard

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/pgtest"
	"cellgate/internal/testwait"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// writePlans makes compareDocs write the documentation instead of comparing.
const writePlans = "CELLGATE_WRITE_PLANS"

// documented is the server whose plans are in docs/reference/shard.md. Other releases word plans
// differently.
const documented = "PostgreSQL 15"

// hot are the statements that run often, such as in every transaction, with arguments for the
// measured database.
func hot() []hotStatement {
	keys := []string{keyOf(shardtest.ClaimID(1)), keyOf(shardtest.ClaimID(2))}
	consumers := []string{shardtest.ConsumerID(1), shardtest.ConsumerID(2)}
	hosts := []string{shardtest.HostID(1001), shardtest.HostID(1002)}
	groups := []string{shardtest.GroupID(1)}
	slot := []string{"1", "2"}
	at := []int64{1, 2}
	all := []hotStatement{
		{"the lane", lockLane, []any{"r", 1, 1}},
		{"lock hosts", lockHosts, []any{hosts}},
		{"lock consumers", lockConsumers, []any{consumers}},
		{"lock groups", lockGroups, []any{groups}},
		{"lock pins", lockPins, []any{groups}},
		{"the gate", readGate, nil},
		{"claims by id, of consumers, transferred from consumers", readStanding, []any{keys, consumers}},
		{"members of groups", readMembers, []any{groups}},
		{"live claims on hosts", readClaimsOfHosts, []any{hosts}},
		{"claims transferred from consumers", readTransferred, []any{consumers}},
		{"a host: its row", readHosts, []any{hosts}},
		{"a host: what services say of it", readNamespaces, []any{hosts}},
		{"write what is in use", putHostUsages, []any{hosts, at, at, at, at, slot, [][]byte{{}, {}}, []bool{false, false}}},
		{"new consumers", insertConsumers, []any{consumers, slot, slot}},
		{"a consumer's next claim", putConsumers, []any{consumers}},
		{"the journal entry", insertEntry, []any{"r", 1, 2, 3, []byte{}}},
		{"leases that are over (Due)", dueLeases, []any{"1", int64(1) << 62, 100}},
		{tail, readTail(2), []any{"r", "1", "0", "10", "s", "1", "0", "10"}},
		{"live claims, page by page (Load)", pageClaims, []any{"1", 500}},
		{"namespaces, page by page (Load)", pageNamespaces, []any{"1", "", 500}},
		{"what operators want of hosts, page by page (Load)", pageAdminStates, []any{"1", 500}},
		{"claims of a project (FindClaims)", findKeys, []any{"1", "2", "project-1", 100}},
		{"the newest decisions (FindDecisions)", newestDecisions, []any{"1", "2", 64}},
		{"decisions of an instance (FindDecisions)", newestNamed, []any{"1", "2", 64, named("instance:x")}},
		{"old tombstones (Trim)", oldTombstones, []any{"1", int64(1) << 62}},
		{"old entries (Trim)", oldEntries, []any{"r", 1, 0}},
	}
	q := &shard.HostQuery{
		Resources: []shard.AmountOf{{ResourceClass: "VCPU", Amount: 2}, {ResourceClass: "MEMORY_MB", Amount: 4096}},
		Required:  []string{"HW_CPU_X86_AVX2"}, Forbidden: []string{"CUSTOM_OLD"}, MemberOf: [][]string{{"a"}}, Zone: "az1",
	}
	whole := filterOf(q)
	q.Limit = 1000
	some := filterFrom(q, " >= ")
	limited := some.sql() + " LIMIT " + some.number(1000)
	return append(
		all,
		hotStatement{allHosts, whole.sql(), whole.args},
		hotStatement{"some hosts for a request (FindHosts)", limited, some.args},
	)
}

type hotStatement struct {
	name, sql string
	args      []any
}

// tail is the statement that reads the journal.
const tail = "the journal (Tail)"

// allHosts is the one statement that may read whole tables.
const allHosts = "all hosts for a request (FindHosts)"

// TestPlans asks PostgreSQL for the plans of the statements, over 300 hosts with 6,000 claims and
// the settings of the store's sessions. Only allHosts may read a whole table.
// docs/reference/shard.md has these plans.
func TestPlans(t *testing.T) {
	// A new database: plans also depend on what other tests left in the tables.
	opts := testOptions(pgtest.Start(t).NewDatabase(t))
	opts.StatementTimeout, opts.IdleTimeout = testwait.Limit, testwait.Limit
	s := newStand(t, opts)
	var ops []shard.Op
	for n := range 300 {
		ops = append(ops, shard.Op{PutHost: shardtest.BigHost(1000 + n)})
	}
	for n := range 6000 {
		ops = append(ops, shardtest.BigClaim(n, 1000+n%300))
	}
	for len(ops) > 0 {
		n := min(len(ops), 2500)
		if err := s.apply(ops[:n]...); err != nil {
			t.Fatal(err)
		}
		ops = ops[n:]
	}
	c := pooled(t, s.Store)
	defer c.Release()
	if _, err := c.Exec(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, q := range hot() {
		q.sql = s.grammar.hinted(q.sql)
		prepare := ""
		if strings.HasSuffix(q.name, "(FindHosts)") {
			prepare = s.server.filters(q.name == allHosts)
		}
		plan := planOf(t, c.Conn(), prepare, q.sql, q.args)
		if q.name != allHosts && readsWhole(plan) {
			t.Errorf("%s reads a table or an index whole:\n%s", q.name, plan)
		}
		fmt.Fprintf(&b, "**%s**\n\n", q.name)
		if prepare != "" || q.name == tail { // the store builds its text for the request or the lanes
			fmt.Fprintf(&b, "```sql\n%s\n```\n\n", q.sql)
		}
		fmt.Fprintf(&b, "```\n%s```\n\n", plan)
	}
	if !strings.HasPrefix(s.version, documented) {
		t.Logf("the plans of %s are not compared with docs/reference/shard.md, which has those of %s", s.version, documented)
		return
	}
	compareDocs(t, "plans", b.String())
}

// readsWhole reports whether a plan has a sequential scan, or a scan of an index without a condition. The lanes are
// read whole: a shard has few.
func readsWhole(plan string) bool {
	lines := strings.Split(plan, "\n")
	for i, l := range lines {
		isIndex := strings.Contains(l, "Index Scan") || strings.Contains(l, "Index Only Scan")
		if strings.Contains(l, "Seq Scan") || isIndex && !strings.Contains(l, "lanes_pkey") && !strings.Contains(lines[i+1], "Index Cond") {
			return true
		}
	}
	return false
}

// planOf gives the plan of a statement in a transaction in which prepare ran.
func planOf(t *testing.T, c *pgx.Conn, prepare, sql string, args []any) string {
	t.Helper()
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), prepare, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN (COSTS OFF) "+sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	// Hide the array arguments: they name rows of the test.
	text := strings.Join(lines, "\n") + "\n"
	for strings.Contains(text, "'{") {
		before, rest, _ := strings.Cut(text, "'{")
		_, after, _ := strings.Cut(rest, "}'")
		text = before + "…" + after
	}
	return text
}

// TestTablesAreDocumented: docs/reference/shard.md has the tables that the migrations make.
func TestTablesAreDocumented(t *testing.T) {
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, m := range all {
		text, err := migrationFiles.ReadFile(fmt.Sprintf("migrations/%04d_%s.sql", m.version, m.name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "```sql\n%s```\n\n", strings.ReplaceAll(strings.ReplaceAll(string(text), "{{key}}", "text"), " IF NOT EXISTS", ""))
	}
	compareDocs(t, "tables", b.String())
}

// compareDocs compares a part of docs/reference/shard.md; with writePlans set, it writes the part.
func compareDocs(t *testing.T, part, want string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "reference", "shard.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+part+": written by make shard-doc -->\n\n", "<!-- end of "+part+" -->\n"
	before, rest, ok := strings.Cut(string(b), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no part %s", path, part)
	}
	if got == want {
		return
	}
	if os.Getenv(writePlans) == "" {
		t.Errorf("the %s of %s are not those of the program: make shard-doc writes them", part, path)
		return
	}
	if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPlans_OfCockroachDB: no statement of a transaction reads a whole table, however many rows it
// names, even without statistics of the tables.
func TestPlans_OfCockroachDB(t *testing.T) {
	at := cockroachSite(t)
	c := pooled(t, newStand(t, at.options(at.database(t))).Store)
	defer c.Release()
	var keys []string
	var bodies [][]byte
	var numbers []int64
	for n := range 64 {
		keys, bodies, numbers = append(keys, keyOf(shardtest.ClaimID(n))), append(bodies, []byte{1}), append(numbers, 1)
	}
	asked := []hotStatement{
		{"write claims over", putClaims, []any{keys, keys, keys, keys, keys, numbers, bodies}},
		{"claims that end", deleteClaims, []any{keys}},
		{"tombstones", putEnded, []any{keys, keys, keys, keys, keys, numbers, bodies}},
		{"members that leave", deleteMembers, []any{keys, keys}},
		{"transfers that end", deleteTransfers, []any{keys, keys}},
		{"tombstones of consumers", endedByConsumer, []any{keys}},
		{"tombstones on hosts", endedByHost, []any{keys}},
	}
	for _, q := range hot() {
		if q.name == tail || strings.HasSuffix(q.name, "(FindHosts)") {
			continue // there are few lanes, and FindHosts may ask for all hosts
		}
		for i, arg := range q.args {
			if _, ok := arg.([]string); ok && strings.HasPrefix(q.sql, "SELECT") {
				q.args[i] = keys
			}
		}
		asked = append(asked, q)
	}
	for _, q := range asked {
		plan := cockroachPlan(t, c.Conn(), q)
		if strings.Contains(plan, "FULL SCAN") {
			t.Errorf("%s reads a table whole:\n%s", q.name, plan)
		}
	}
}

// cockroachPlan joins all columns of EXPLAIN, since they differ by version.
func cockroachPlan(t *testing.T, c *pgx.Conn, q hotStatement) string {
	t.Helper()
	rows, err := c.Query(t.Context(), "EXPLAIN "+q.sql, q.args...)
	if err != nil {
		t.Fatalf("%s: %v", q.name, err)
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			t.Fatalf("%s: %v", q.name, err)
		}
		fmt.Fprintln(&b, values...)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", q.name, err)
	}
	return b.String()
}
