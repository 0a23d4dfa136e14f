package novadb

import (
	"database/sql"
	"testing"
)

// If only numbers of a row changed, the host keeps the facts that were read from the row's texts. A row with another
// text is read anew, and so is a row that was no host.
func TestConvert_NumbersChangedAlone_KeepsFacts(t *testing.T) {
	text := func(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }
	row := nodeRow{
		id: 1, uuid: text("a0000000-0000-4000-8000-000000000001"), host: text("host1"), node: text("node1"), vcpus: 8, memoryMB: 1024, localGB: 10,
		freeRAMMB: sql.NullInt64{Int64: 1024, Valid: true}, freeDiskGB: sql.NullInt64{Int64: 10, Valid: true}, hypervisorType: "QEMU",
		supportedInstances: text("[]"), stats: text(`{"failed_builds": "1"}`), metrics: text("[]"),
	}
	r := &Reader{cell: &database{dialect: postgresDialect}}
	first := r.convert(row, 1, nil)
	if first.why != nil {
		t.Fatal(first.why)
	}
	row.freeRAMMB.Int64 = 512
	second := r.convert(row, 2, &tracked{node: first})
	if second.host.Facts != first.host.Facts || second.host.View.FreeRAMMB != 512 {
		t.Errorf("the facts are read again, or %d MB are free", second.host.View.FreeRAMMB)
	}
	row.stats.String = `{"failed_builds": "2"}`
	if third := r.convert(row, 3, &tracked{node: second}); third.host.Facts == first.host.Facts || third.host.View.FailedBuilds != 2 {
		t.Errorf("facts of other texts are kept, with %d failed builds", third.host.View.FailedBuilds)
	}
	row.freeDiskGB.Valid = false
	left := r.convert(row, 4, &tracked{node: second})
	if left.why == nil {
		t.Fatal("a row that has not reported is a host")
	}
	if again := r.convert(second.row, 5, &tracked{node: left}); again.host.Facts == nil || again.host.Facts == first.host.Facts {
		t.Error("the facts of a row that was no host are kept")
	}
}
