package legacy

import "time"

// Compose makes a snapshot of hosts and services that came another way than from
// databases, for tests of what uses one: a host's service is that of its ServiceID.
// Down, and revisions, are left to the caller; those of all composed snapshots can be
// compared. The rows of bareMetal, hosts of services, are nodes of Ironic.
func Compose(cell, cellUUID string, at time.Time, down time.Duration, hosts []Host, services []Service, bareMetal ...string) *Snapshot {
	x := &Snapshot{Cell: cell, CellUUID: cellUUID, At: at, Full: true, Hosts: hosts, Services: services, down: down}
	for _, host := range bareMetal {
		if x.bareMetal == nil {
			x.bareMetal = map[string]bool{}
		}
		x.bareMetal[host] = true
	}
	byID := x.servicesByID()
	for i := range x.Hosts {
		x.Hosts[i].service = byID[x.Hosts[i].ServiceID]
	}
	return x
}
