package legacytest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// FleetCell is the uuid of the cell that Fleet makes, under the name cell1.
const FleetCell = "c0000000-0000-0000-0000-000000000001"

// FleetHost is the name of a host of Fleet, by the id of its row.
func FleetHost(id int) string { return fmt.Sprintf("host%d", id) }

// FleetUUID gives the uuid of a host of Fleet, by the id of its row.
func FleetUUID(id int) string { return fmt.Sprintf("a0000000-0000-0000-0000-%012d", id) }

// FleetFirst is the id of the first row of Fleet.
const FleetFirst = 100

// Fleet makes the databases of one cell with that many hosts. Each has the texts of a real
// host: NUMA cells, PCI pools, stats of twenty projects. The hosts are up at now, mapped, and
// in twenty aggregates of four availability zones.
func Fleet(t testing.TB, s Server, hosts int) (cell, api *Database, now time.Time) {
	t.Helper()
	cell, api = NewCell(t, s), NewAPI(t, s)
	now = cell.Now(t).Truncate(time.Second)
	cell.Sample(t)
	// Every host is a copy of the sample's second row.
	cell.Exec(t, "DELETE FROM services; DELETE FROM compute_nodes WHERE id <> 2")
	const columns = `vcpus, memory_mb, local_gb, vcpus_used, memory_mb_used, local_gb_used, hypervisor_type, hypervisor_version, cpu_info,
		free_ram_mb, free_disk_gb, deleted, host_ip, supported_instances, pci_stats, metrics, stats, numa_topology,
		cpu_allocation_ratio, ram_allocation_ratio, disk_allocation_ratio`
	marks := make([]string, 6)
	for i := range marks {
		marks[i] = cell.Mark(i + 1)
	}
	tx, err := cell.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var services, mappings, aggregates, metadata, members []Row
	for id := FleetFirst; id < FleetFirst+hosts; id++ {
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO compute_nodes (id, uuid, host, hypervisor_hostname, created_at, updated_at, "+columns+") SELECT "+
			strings.Join(marks, ", ")+", "+columns+" FROM compute_nodes WHERE id = 2",
			id, FleetUUID(id), FleetHost(id), FleetHost(id), now.Add(-48*time.Hour), now.Add(-24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		services = append(services, Row{
			"id": id, "uuid": fmt.Sprintf("b0000000-0000-0000-0000-%012d", id), "host": FleetHost(id), "binary": "nova-compute", "topic": "compute",
			"report_count": 1, "disabled": false, "forced_down": false, "deleted": 0, "version": 61,
			"created_at": now.Add(-240 * time.Hour), "last_seen_up": now, "updated_at": now,
		})
		mappings = append(mappings, Row{"id": id, "cell_id": 1, "host": FleetHost(id)})
		members = append(members, Row{"host": FleetHost(id), "aggregate_id": 1 + id%20})
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	cell.Exec(t, "DELETE FROM compute_nodes WHERE id = 2")
	for id := 1; id <= 20; id++ {
		aggregates = append(aggregates, Row{"id": id, "uuid": FleetUUID(id), "name": fmt.Sprint(id)})
		metadata = append(metadata, Row{"aggregate_id": id, "key": "availability_zone", "value": fmt.Sprint("az", id%4)})
	}
	cell.Insert(t, "services", services...)
	api.Insert(t, "cell_mappings", Row{"id": 1, "uuid": FleetCell, "name": "cell1"})
	api.Insert(t, "host_mappings", mappings...)
	api.Insert(t, "aggregates", aggregates...)
	api.Insert(t, "aggregate_metadata", metadata...)
	api.Insert(t, "aggregate_hosts", members...)
	if cell.Kind == PostgreSQL { // like a database that has run for a while
		cell.Exec(t, "ANALYZE")
		api.Exec(t, "ANALYZE")
	}
	return cell, api, now
}
