package sqlshard

import (
	"encoding/json"
	"testing"

	"cellgate/internal/pgtest"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// Queries for live claims read at most twice as many rows as there are live claims, however many
// claims have ended.
func TestEndedClaimsAreNotReadForLiveOnes(t *testing.T) {
	const claims, live, hosts = 2000, 40, 20
	s := newStand(t, testOptions(pgtest.Start(t).NewDatabase(t)))
	var put, take, end []shard.Op
	var uuids []string
	for n := range hosts {
		put = append(put, shard.Op{PutHost: shardtest.BigHost(1000 + n)})
		uuids = append(uuids, shardtest.HostID(1000+n))
	}
	for n := range claims {
		take = append(take, shardtest.BigClaim(n, 1000+n%hosts))
		if n >= live {
			end = append(end, shard.Op{Release: shardtest.Ref(n)})
		}
	}
	for _, ops := range [][]shard.Op{put, take, end} {
		if err := s.apply(ops...); err != nil {
			t.Fatal(err)
		}
	}
	c := pooled(t, s.Store)
	defer c.Release()
	// Autovacuum does this when a fifth of a table is dead rows.
	if _, err := c.Exec(t.Context(), "VACUUM (ANALYZE)"); err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]hotStatement{
		"Load":                    {sql: pageClaims, args: []any{"", loadPage}},
		"FindClaims":              {sql: findKeys, args: []any{"0", "9", "", loadPage}},
		"FindClaims of a project": {sql: findKeys, args: []any{"0", "9", "nobody's", loadPage}},
		"a host's report":         {sql: postgres.hinted(readClaimsOfHosts), args: []any{uuids}},
	} {
		var text []byte
		if err := c.QueryRow(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "+q.sql, q.args...).Scan(&text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var plans []struct{ Plan planNode }
		if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
			t.Fatalf("%s: %v in %s", name, err, text)
		}
		if n := plans[0].Plan.scanned(); n < live || n > 2*live {
			t.Errorf("%s read %v rows, and %d claims are live:\n%s", name, n, live, text)
		}
	}
	if n := s.live(); n != live {
		t.Errorf("Load gave %d claims, want %d", n, live)
	}
}

// planNode is a node of an executed plan, as EXPLAIN ANALYZE gives it.
type planNode struct {
	Plans   []planNode
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Checked float64 `json:"Rows Removed by Index Recheck"`
}

// scanned adds up the rows that the nodes read from tables and indexes.
func (n planNode) scanned() (sum float64) {
	if len(n.Plans) == 0 {
		return (n.Rows + n.Removed + n.Checked) * n.Loops
	}
	for _, p := range n.Plans {
		sum += p.scanned()
	}
	return sum + (n.Removed+n.Checked)*n.Loops
}
