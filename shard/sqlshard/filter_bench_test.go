package sqlshard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/pgtest"
	"cellgate/shard"
)

// usageHosts is how many hosts BenchmarkUsage has.
const usageHosts = 10_000

// fillUsage makes hosts with three classes, nine of ten of them full, and beside the
// texts of host_usages the rows that they would be.
const fillUsage = `
INSERT INTO hosts SELECT md5(n::text), 1, 'host-' || n, 'node-' || n, false, '', 0, 0, '', 1, '', 1, '', 1 FROM generate_series(1, %d) n;
INSERT INTO inventories SELECT host_uuid, host_uuid, c, o, t, 0, 1, t, 1, r
FROM hosts, (VALUES ('VCPU', 0, 64, 16.0), ('MEMORY_MB', 1, 262144, 1.5), ('DISK_GB', 2, 2000, 1.0)) v(c, o, t, r);
INSERT INTO host_usages SELECT host_uuid, 1, 5, 1, 1,
  '{"' || host_uuid || '":{"DISK_GB":' || CASE WHEN right(host_uuid, 3) < '199' THEN 100 ELSE 1990 END || ',"MEMORY_MB":65536,"VCPU":32}}' FROM hosts;
CREATE TABLE usage_rows (host_uuid text COLLATE "C", provider_uuid text COLLATE "C", resource_class text COLLATE "C", used int8,
  PRIMARY KEY (host_uuid, provider_uuid, resource_class));
INSERT INTO usage_rows SELECT host_uuid, host_uuid, c, (used::jsonb -> host_uuid ->> c)::int8
FROM host_usages, (VALUES ('VCPU'), ('MEMORY_MB'), ('DISK_GB')) v(c);
VACUUM ANALYZE`

const putUsageRows = `INSERT INTO usage_rows (host_uuid, provider_uuid, resource_class, used)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::int8[])
ON CONFLICT (host_uuid, provider_uuid, resource_class) DO UPDATE SET used = excluded.used`

// BenchmarkUsage is what stands behind what is in use being a text in one row a host
// (ADR 13): the filter of all hosts by the text and by rows of a table of their own,
// and the transaction that writes it for 1, 32 and 256 hosts, with and without those
// rows.
func BenchmarkUsage(b *testing.B) {
	s, err := Open(b.Context(), testOptions(pgtest.New(b, pgtest.Options{Durable: true}).NewDatabase(b)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	c, err := s.acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Release)
	for sql := range strings.SplitSeq(fmt.Sprintf(fillUsage, usageHosts), ";\n") {
		if _, err := c.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	uuids, err := texts(b.Context(), c.Conn(), `SELECT host_uuid FROM hosts ORDER BY md5(host_uuid)`)
	if err != nil {
		b.Fatal(err)
	}
	asText := filterOf(&shard.HostQuery{Resources: []shard.AmountOf{
		{ResourceClass: "VCPU", Amount: 4}, {ResourceClass: "MEMORY_MB", Amount: 8192}, {ResourceClass: "DISK_GB", Amount: 40},
	}})
	asRows := asText.sql()
	for i, class := range []string{"$1", "$3", "$5"} {
		used := fmt.Sprintf("coalesce((nullif(u.used, '')::jsonb -> h.host_uuid ->> %s::text)::float8, 0)", class)
		if !strings.Contains(asRows, used) {
			b.Fatalf("%s is not in %s", used, asRows)
		}
		asRows = strings.ReplaceAll(asRows, used, fmt.Sprintf("coalesce(u%d.used, 0)::float8", i))
		asRows = strings.Replace(asRows, "\nWHERE", fmt.Sprintf(
			"\nLEFT JOIN usage_rows u%d ON u%[1]d.host_uuid = h.host_uuid AND u%[1]d.provider_uuid = h.host_uuid AND u%[1]d.resource_class = %s::text\nWHERE", i, class), 1)
	}
	found := map[string]int{}
	for _, f := range []struct{ name, sql string }{{"text", asText.sql()}, {"rows", asRows}} {
		b.Run("filter/"+f.name, func(b *testing.B) {
			for b.Loop() {
				transact(b, c.Conn(), func(tx pgx.Tx) error {
					if _, err := tx.Exec(b.Context(), s.server.filters(true), pgx.QueryExecModeSimpleProtocol); err != nil {
						return err
					}
					list, err := collect(tx.Query(b.Context(), f.sql, asText.args...))
					found[f.name] = len(list)
					return err
				})
			}
		})
	}
	if found["text"] == 0 || found["text"] != found["rows"] && len(found) == 2 {
		b.Fatal(found)
	}
	for _, hosts := range []int{1, 32, 256} {
		for _, rows := range []bool{false, true} {
			b.Run(fmt.Sprintf("write/hosts=%d/rows=%v", hosts, rows), func(b *testing.B) {
				at := 0
				for b.Loop() {
					at = (at + hosts) % (usageHosts - hosts)
					transact(b, c.Conn(), func(tx pgx.Tx) error { return writeUsage(b, tx, uuids[at:at+hosts], rows) })
				}
				b.ReportMetric(float64(hosts)*float64(b.N)/b.Elapsed().Seconds(), "hosts/s")
			})
		}
	}
}

func collect(rows pgx.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func transact(b *testing.B, c *pgx.Conn, do func(pgx.Tx) error) {
	b.Helper()
	if err := pgx.BeginFunc(b.Context(), c, do); err != nil {
		b.Fatal(err)
	}
}

// writeUsage locks hosts and writes what is in use on them, as a claim does, in one
// trip each.
func writeUsage(b *testing.B, tx pgx.Tx, uuids []string, rows bool) error {
	if _, err := texts(b.Context(), tx.Conn(), `SELECT host_uuid FROM (`+lockHosts+`) x`, uuids); err != nil {
		return err
	}
	ones := make([]int64, len(uuids))
	used := make([]string, len(uuids))
	var hosts, classes []string
	var amounts []int64
	for i, uuid := range uuids {
		ones[i] = int64(b.N)
		used[i] = fmt.Sprintf(`{"%s":{"DISK_GB":1990,"MEMORY_MB":65536,"VCPU":%d}}`, uuid, b.N%64)
		for _, class := range []string{"DISK_GB", "MEMORY_MB", "VCPU"} {
			hosts, classes, amounts = append(hosts, uuid), append(classes, class), append(amounts, int64(b.N%64))
		}
	}
	batch := &pgx.Batch{}
	batch.Queue(putHostUsages, uuids, ones, ones, ones, ones, used)
	if rows {
		batch.Queue(putUsageRows, hosts, hosts, classes, amounts)
	}
	return tx.SendBatch(b.Context(), batch).Close()
}
