package replica

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// Drained is the reason why a host that is assumed to be drained takes no instances.
const Drained = "assumed to be drained"

// Assume applies hypothetical changes to a copy of a table, as far as they concern hosts of the cell, and drains
// more hosts. known are the uuids of hosts and aggregates in the changes that the cell has.
func (r *Rows) Assume(cellUUID string, t *schedule.Table, changes *cellgatev1.HypotheticalChanges, drained []*cellgatev1.DrainedHost) (assumed *schedule.Table, known []string) {
	a := &assumption{cell: cellUUID, rows: r, table: t, hosts: map[schedule.ID]*schedule.Host{}, inventories: map[schedule.ID]*shard.Provider{}, known: map[string]bool{}}
	for i, x := range changes.GetAddedHosts() {
		a.addHosts(i, x)
	}
	for _, x := range changes.GetAggregates() {
		a.changeAggregate(x)
	}
	for _, x := range changes.GetRatios() {
		a.changeRatio(x)
	}
	uuids := slices.Clone(changes.GetDrainedHosts())
	for _, h := range drained {
		uuids = append(uuids, h.GetHostUuid())
	}
	for _, uuid := range uuids {
		if h := a.host(uuid); h != nil {
			h.Withheld = Drained
		}
	}
	if len(a.hosts) == 0 {
		return t, slices.Sorted(maps.Keys(a.known))
	}
	e := t.Edit()
	for _, id := range slices.SortedFunc(maps.Keys(a.hosts), func(a, b schedule.ID) int { return slices.Compare(a[:], b[:]) }) {
		e.PutHost(*a.hosts[id])
	}
	return e.Table(), slices.Sorted(maps.Keys(a.known))
}

// assumption is the work of Assume.
type assumption struct {
	cell  string
	rows  *Rows
	table *schedule.Table
	// hosts are those that differ from the table; inventories the root providers of added hosts.
	hosts       map[schedule.ID]*schedule.Host
	inventories map[schedule.ID]*shard.Provider
	known       map[string]bool
}

// host returns a host to change; nil if the cell does not have it.
func (a *assumption) host(uuid string) *schedule.Host {
	id, err := schedule.ParseID(uuid)
	if err != nil {
		return nil // the message's validation rules exclude this
	}
	h := a.hostOf(id)
	if h != nil {
		a.known[id.String()] = true
	}
	return h
}

func (a *assumption) hostOf(id schedule.ID) *schedule.Host {
	if h := a.hosts[id]; h != nil {
		return h
	}
	h, ok := a.table.Host(id)
	if !ok {
		return nil
	}
	h.Aggregates = slices.Clone(h.Aggregates)
	a.hosts[id] = &h
	return &h
}

// addHosts adds copies of a host, without the usage of its claims.
func (a *assumption) addHosts(at int, x *cellgatev1.AddedHosts) {
	id, err := schedule.ParseID(x.GetLikeHostUuid())
	if err != nil {
		return
	}
	row := a.rows.Host(id.String())
	if row == nil || row.Host == nil {
		return
	}
	a.known[id.String()] = true
	bare := *row
	bare.Usage, bare.Admin = nil, nil
	for n := range x.GetCount() {
		h := hostOf(a.cell, &bare, false)
		h.UUID = schedule.ID{0: 0xce, 1: 0x11, 15: 0x02}
		binary.BigEndian.PutUint32(h.UUID[4:], uint32(at))
		binary.BigEndian.PutUint32(h.UUID[8:], uint32(n))
		h.ServiceHost, h.NodeName = fmt.Sprintf("%s-added-%d", h.ServiceHost, n+1), fmt.Sprintf("%s-added-%d", h.NodeName, n+1)
		h.Disabled, h.View.NumIOOps, h.View.FailedBuilds = false, 0, 0
		a.hosts[h.UUID], a.inventories[h.UUID] = &h, RootOf(bare.Host)
	}
}

// inAggregate returns the hosts that are in an aggregate after the changes so far.
func (a *assumption) inAggregate(uuid string) (ids []schedule.ID) {
	for id, h := range a.hosts {
		if slices.ContainsFunc(h.Aggregates, func(g schedule.Aggregate) bool { return g.UUID == uuid }) {
			ids = append(ids, id)
		}
	}
	for _, row := range a.rows.HostsInService() {
		if a.hosts[row.id] == nil && slices.ContainsFunc(row.Host.Aggregates, func(g shard.Aggregate) bool { return g.UUID == uuid }) {
			ids = append(ids, row.id)
		}
	}
	if len(ids) > 0 {
		a.known[uuid] = true
	}
	return ids
}

func (a *assumption) changeAggregate(x *cellgatev1.AggregateChange) {
	uuid := canonical(x.GetAggregateUuid())
	is := func(g schedule.Aggregate) bool { return g.UUID == uuid }
	members := a.inAggregate(uuid)
	aggregate := schedule.Aggregate{UUID: uuid, Name: uuid}
	for _, id := range members {
		if h := a.hostOf(id); h != nil {
			aggregate = h.Aggregates[slices.IndexFunc(h.Aggregates, is)]
			break
		}
	}
	aggregate.Metadata = maps.Clone(aggregate.Metadata)
	if aggregate.Metadata == nil {
		aggregate.Metadata = map[string]string{}
	}
	for key, value := range x.GetMetadata() {
		aggregate.Metadata[key] = value
		if value == "" {
			delete(aggregate.Metadata, key)
		}
	}
	put := func(h *schedule.Host) {
		if h != nil {
			h.Aggregates = append(slices.DeleteFunc(h.Aggregates, is), aggregate)
		}
	}
	for _, id := range members {
		put(a.hostOf(id))
	}
	for _, host := range x.GetAddHostUuids() {
		put(a.host(host))
	}
	for _, host := range x.GetRemoveHostUuids() {
		if h := a.host(host); h != nil {
			h.Aggregates = slices.DeleteFunc(h.Aggregates, is)
		}
	}
}

func (a *assumption) changeRatio(x *cellgatev1.RatioChange) {
	switch {
	case len(x.GetHostUuids()) > 0:
		for _, uuid := range x.GetHostUuids() {
			a.setRatio(a.host(uuid), x)
		}
	case x.GetAggregateUuid() != "":
		for _, id := range a.inAggregate(canonical(x.GetAggregateUuid())) {
			a.setRatio(a.hostOf(id), x)
		}
	default:
		for _, row := range a.rows.HostsInService() {
			a.hostOf(row.id)
		}
		for _, h := range a.hosts {
			a.setRatio(h, x)
		}
	}
}

// setRatio changes a ratio of the root provider. The total that it applies to comes from the shard.
func (a *assumption) setRatio(h *schedule.Host, x *cellgatev1.RatioChange) {
	if h == nil {
		return
	}
	root := a.inventories[h.UUID]
	if root == nil {
		row := a.rows.Host(h.UUID.String())
		if row == nil || row.Host == nil {
			return // the host was removed after the table was built
		}
		if root = RootOf(row.Host); root == nil {
			return
		}
	}
	at := slices.IndexFunc(root.Inventories, func(i shard.Inventory) bool { return i.ResourceClass == x.GetResourceClass() })
	to := slices.IndexFunc(h.Resources, func(r schedule.Resource) bool { return r.Class == x.GetResourceClass() })
	if at < 0 || to < 0 {
		return
	}
	inventory := root.Inventories[at]
	inventory.AllocationRatio = x.GetAllocationRatio()
	h.Resources = slices.Clone(h.Resources)
	h.Resources[to].Capacity = inventory.Capacity()
	switch x.GetResourceClass() {
	case "VCPU":
		h.View.CPURatio = inventory.AllocationRatio
	case "MEMORY_MB":
		h.View.RAMRatio = inventory.AllocationRatio
	case "DISK_GB":
		h.View.DiskRatio = inventory.AllocationRatio
	}
}

// canonical is a uuid in the form of rows.
func canonical(uuid string) string {
	if id, err := schedule.ParseID(uuid); err == nil {
		return id.String()
	}
	return uuid
}
