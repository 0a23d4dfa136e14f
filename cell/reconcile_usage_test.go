package cell

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/pgtest"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Somebody changes a host's usage row in the database. The cell recomputes it from the claims, and
// the table gets the result. If repairs are off, it is only reported.
func TestUsageThatIsNotTheSumIsWrittenAnew(t *testing.T) {
	for name, reportOnly := range map[string]bool{"repaired": false, "reported": true} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.Start(t).NewDatabase(t)
			r := start(t, openPostgres(t, url), func(c *Config) {
				c.ReconcileInterval, c.ReconcileReportOnly = time.Hour, reportOnly
			})
			r.register(plainState(1, 8))
			r.must(newClaim("k1", 1, 1, 3), confirm("k1", 1))
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			used := `{"` + hostUUID(1) + `":{"VCPU":8}}`
			if tag, err := conn.Exec(t.Context(), "UPDATE host_usages SET generation = generation + 1, used = $1 WHERE host_uuid = $2", used, hostUUID(1)); err != nil || tag.RowsAffected() != 1 {
				t.Fatal(tag, err)
			}
			var seen *cellgatev1.Finding
			// The cell's own comparison is an hour away.
			if err := r.cell.reconcile.CompareAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, f := range r.findings().GetFindings() {
				if f.GetKind() == cellgatev1.Finding_USAGE_DIFFERS {
					seen = f
				}
			}
			if seen == nil {
				t.Fatalf("not found: %v", r.findings())
			}
			if seen.GetHostUuid() != hostUUID(1) || seen.GetDetail() == "" || (seen.GetRepairedAt() == nil) != reportOnly {
				t.Errorf("found %v", seen)
			}
			if reportOnly {
				return
			}
			r.must(newClaim("k2", 2, 1, 5))
			if p := r.propose(query(1)); p.GetPassed() != 0 {
				t.Errorf("a full host passes: %v", p)
			}
		})
	}
}
