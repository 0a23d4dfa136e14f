package novadb

import "time"

// Compose makes a snapshot of hosts and services that came another way than from
// databases, for tests of what uses one: a host's service is that of its ServiceID.
// Down, and revisions, are left to the caller; those of all composed snapshots can be
// compared.
func Compose(cell, cellUUID string, at time.Time, down time.Duration, hosts []Host, services []Service) *Snapshot {
	x := &Snapshot{Cell: cell, CellUUID: cellUUID, At: at, Full: true, Hosts: hosts, Services: services, down: down}
	byID := x.servicesByID()
	for i := range x.Hosts {
		x.Hosts[i].service = byID[x.Hosts[i].ServiceID]
	}
	return x
}
