package importer

import (
	"fmt"
	"math"
	"time"

	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
	"cellgate/schedule"
)

// place is the host and node of a row of instances. Names are compared with case, as between
// compute_nodes and services.
type place struct{ host, node string }

// instance is an instance that holds something of its place.
type instance struct {
	uuid                schedule.ID
	at                  place
	vcpus, memoryMB, gb int32
	// rootGB is the part of gb that is its root disk.
	rootGB        int32
	project, user string
	pass, first   uint64
	firstAt       time.Time
	// claiming: the last row was still claiming (isClaiming), so the next pass sets first anew.
	claiming bool
	// again: a pass before first had the row, claiming.
	again bool
}

// known are the instances in the rows that were read last.
type known struct {
	most    int
	by      map[schedule.ID]*instance
	on      map[place]*placeInstances
	bad     map[int64]*badRow
	strings map[string]string
	// deleted are the instances whose rows are deleted.
	deleted map[schedule.ID]*deletedRow
}

// placeInstances are the instances of a place. changes counts their changes.
type placeInstances struct {
	all     map[schedule.ID]*instance
	changes uint64
}

// badRow is a row of an instance that cannot be imported.
type badRow struct {
	LeftOut
	pass uint64
}

func newKnown(most int) *known {
	return &known{
		most: most, by: map[schedule.ID]*instance{}, on: map[place]*placeInstances{}, bad: map[int64]*badRow{},
		strings: map[string]string{}, deleted: map[schedule.ID]*deletedRow{},
	}
}

// held converts a row: it gives the instance, or the reason why the row cannot be imported;
// both are nil if the row holds nothing.
func held(row *novadb.Instance) (*instance, *LeftOut) {
	if row.Deleted || row.Host == "" || row.VMState == "deleted" || row.VMState == "shelved_offloaded" && row.TaskState != "spawning" {
		return nil, nil
	}
	leave := func(why Reason, format string, args ...any) (*instance, *LeftOut) {
		return nil, &LeftOut{Instance: true, UUID: row.UUID, Host: row.Host, Reason: why, Detail: fmt.Sprintf(format, args...)}
	}
	id, err := schedule.ParseID(row.UUID)
	if err != nil {
		return leave(BadUUID, "row %d of instances: %v", row.ID, err)
	}
	if row.Incomplete {
		return leave(NullAmount, "vcpus, memory_mb, root_gb or ephemeral_gb is NULL: what it uses is unaccounted on its host")
	}
	root := row.RootGB
	if row.FromVolume {
		root = 0
	}
	gb := root + row.EphemeralGB
	for _, a := range []struct {
		column string
		n      int64
	}{{"vcpus", row.VCPUs}, {"memory_mb", row.MemoryMB}, {"root_gb", row.RootGB}, {"ephemeral_gb", row.EphemeralGB}, {"root_gb + ephemeral_gb", gb}} {
		if a.n < 0 || a.n > math.MaxInt32 {
			return leave(BadAmount, "%s is %d", a.column, a.n)
		}
	}
	return &instance{
		uuid: id, at: place{row.Host, row.Node}, vcpus: int32(row.VCPUs), memoryMB: int32(row.MemoryMB), gb: int32(gb), rootGB: int32(root),
		project: row.Project, user: row.User,
	}, nil
}

// note records a row of a pass. A row that was not written since quiet counts at once; if
// quiet is zero, it counts from the next pass.
func (k *known) note(row *novadb.Instance, pass uint64, at, quiet time.Time) error {
	i, why := held(row)
	id, err := schedule.ParseID(row.UUID)
	if err == nil && (i == nil || k.by[id] != nil && k.by[id].at != i.at) {
		k.drop(id)
	}
	if err == nil {
		k.deletedRow(id, row, pass)
	}
	delete(k.bad, row.ID)
	if why != nil {
		k.bad[row.ID] = &badRow{*why, pass}
	}
	if i != nil {
		k.put(i, row, pass, at, quiet)
	}
	if n := len(k.by) + len(k.bad); n > k.most {
		return fault.New(fault.CellUnavailable, "the cell database has more than %d instances on hosts", k.most)
	}
	return nil
}

func (k *known) put(i *instance, row *novadb.Instance, pass uint64, at, quiet time.Time) {
	i.pass = pass
	old := k.by[i.uuid]
	switch {
	case old != nil && !old.claiming:
		i.first, i.firstAt, i.again = old.first, old.firstAt, old.again
		old.pass = pass
		if *old == *i {
			return
		}
	case quiet.IsZero() || latest(row).After(quiet):
		i.first, i.firstAt, i.claiming, i.again = pass, at, isClaiming(row, at), old != nil
	}
	i.project, i.user = k.intern(i.project), k.intern(i.user)
	i.at = place{k.intern(i.at.host), k.intern(i.at.node)}
	k.by[i.uuid] = i
	o := k.on[i.at]
	if o == nil {
		o = &placeInstances{all: map[schedule.ID]*instance{}}
		k.on[i.at] = o
	}
	o.all[i.uuid] = i
	o.changes++
}

// isClaiming reports whether a row is in the state that nova-compute writes while it claims for an
// instance that it builds: compute_nodes may not have the instance. If the row was not written for
// settleFor, the compute has stopped.
func isClaiming(row *novadb.Instance, at time.Time) bool {
	return row.VMState == "building" && row.TaskState == "" && at.Sub(latest(row)).Abs() < settleFor
}

// latest gives when a row was last written, by its writer's clock.
func latest(row *novadb.Instance) time.Time {
	if row.UpdatedAt.After(row.CreatedAt) {
		return row.UpdatedAt
	}
	return row.CreatedAt
}

// drop forgets an instance. A place is kept even without instances, since changes of its
// occupants must not start again.
func (k *known) drop(id schedule.ID) {
	if i := k.by[id]; i != nil {
		delete(k.by, id)
		o := k.on[i.at]
		delete(o.all, id)
		o.changes++
	}
}

// sweep forgets instances and rows that a full pass did not find.
func (k *known) sweep(pass uint64) {
	for id, i := range k.by {
		if i.pass != pass {
			k.drop(id)
		}
	}
	for id, b := range k.bad {
		if b.pass != pass {
			delete(k.bad, id)
		}
	}
	// Names no longer in use go with the old map.
	k.strings = make(map[string]string, len(k.strings))
	for _, i := range k.by {
		for _, s := range []string{i.project, i.user, i.at.host, i.at.node} {
			k.intern(s)
		}
	}
}

// intern keeps one copy of each name that many rows have.
func (k *known) intern(s string) string {
	if kept, ok := k.strings[s]; ok {
		return kept
	}
	k.strings[s] = s
	return s
}

// counts reports whether an instance counts on its host in the pass that was made last, with
// compute_nodes read at time at.
func (i *instance) counts(pass uint64, at time.Time) bool {
	return i.first == 0 || pass > i.first && at.After(i.firstAt)
}
