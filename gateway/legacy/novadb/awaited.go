package novadb

import (
	"context"
	"database/sql"
	"time"

	"cellgate/schedule"
)

// Awaited is what a snapshot says of an instance that it was asked for: its live row of
// instances, read in the transaction in which the row of its host was. All is empty when it has
// none.
type Awaited struct {
	// Host and Node are empty for one that is on no host.
	Host, Node string
	// VMState and TaskState are Nova's words; empty for NULL.
	VMState, TaskState string
	CreatedAt          time.Time
}

// Stage says how far Nova is with building an instance on a host, by one snapshot.
type Stage int

const (
	// Unknown: the snapshot was not asked for the instance, or does not tell.
	Unknown Stage = iota
	// Nowhere: it is to be built, and has no host yet.
	Nowhere
	// Claimed: it is being built on the host, whose row has what it uses.
	Claimed
	// Running: it is active on the host. The row has what it uses if it was built there, but
	// not always while it was moved there: whoever saw it Nowhere or Claimed before, as its
	// claim on the host was made, knows which.
	Running
)

// Stage says how far an instance is on a host of x. It is Claimed by the order in which
// nova-compute commits (nova/compute, resource_tracker.py and manager.py, 15.0.0 to 33.0.2; the two
// of ResourceTracker hold its semaphore, as the periodic audit does):
//
//	ResourceTracker.instance_claim
//	  _set_instance_host_and_node   instances: host, node; vm_state building, task_state NULL
//	  _update                       compute_nodes: what the instance uses; an error ends the build
//	ComputeManager._build_resources, which needs that claim
//	  _allocate_network             instances: task_state networking (not when it is built again)
//	                                instances: task_state block_device_mapping
//	ComputeManager._build_and_run_instance
//	                                instances: task_state spawning
//	  _update_instance_after_spawn  instances: vm_state active, task_state NULL
//	ResourceTracker.abort_instance_claim, when a build fails
//	  _unset_instance_host_and_node instances: host NULL
//	  _update                       compute_nodes: without it
//
// Each is a transaction that has ended before the next one begins, so whatever snapshot has the
// task_state has the row of compute_nodes. A host alone says nothing, nor does spawning without
// building: unshelve writes it before the claim. Up to 27.0.0 instance_claim does nothing for a
// node that the compute does not track, and nobody writes its row then: one that was not written
// since the instance was made tells nothing. Up to 18.0.0 (17.0.13 and 18.3.0 have it mended, bug
// 1729621) the audit writes the hypervisor's own vcpus_used first, for all instances, and the
// right one a moment later.
func (x *Snapshot) Stage(instance schedule.ID, on *Host) Stage {
	a, asked := x.Awaited[instance]
	switch {
	case !asked:
		return Unknown
	case a.Host == "":
		if a.VMState == "" || a.VMState == "building" {
			return Nowhere
		}
		return Unknown
	case a.Host != on.ServiceHost, a.Node != on.NodeName, on.Changed.Before(a.CreatedAt.Truncate(time.Second)):
		return Unknown
	case a.VMState == "active":
		return Running
	case a.VMState != "building":
		return Unknown
	}
	switch a.TaskState {
	case "networking", "block_device_mapping", "spawning":
		return Claimed
	}
	return Unknown
}

// awaitedPause is how long no instances are asked for after they could not be read.
const awaitedPause = 30 * time.Second

// readAwaited reads the rows of instances, as the last of a transaction: where they cannot be
// read x is without them, and nothing else can be read in it.
func (r *Reader) readAwaited(ctx context.Context, s *session, x *Snapshot, instances []schedule.ID) error {
	if len(instances) == 0 || time.Now().UnixNano() < r.noAwaited.Load() {
		return nil
	}
	all, err := s.awaited(ctx, instances)
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		r.noAwaited.Store(time.Now().Add(awaitedPause).UnixNano())
		return nil
	}
	x.Awaited, x.Read.Instances = all, len(all)
	return r.nodesOfAwaited(ctx, s, x)
}

// awaited reads them by the index of uuids, all within the time of one query.
func (s *session) awaited(ctx context.Context, instances []schedule.ID) (map[schedule.ID]Awaited, error) {
	ctx, cancel := s.soon(ctx)
	defer cancel()
	hidden, err := s.column(ctx, "instances", "hidden", "false") // not before Train
	if err != nil {
		return nil, err
	}
	all, texts := make(map[schedule.ID]Awaited, len(instances)), make([]string, len(instances))
	for i, id := range instances {
		all[id], texts[i] = Awaited{}, id.String()
	}
	_, err = inFew(ctx, s, "SELECT uuid, host, node, vm_state, task_state, created_at, "+hidden+" FROM instances WHERE deleted = 0 AND uuid IN ("+listOfFew+")", texts,
		func(rows *sql.Rows) error {
			var uuid, host, node, vm, task sql.NullString
			var created nullTime
			var hidden truth
			if err := rows.Scan(&uuid, &host, &node, &vm, &task, &created, &hidden); err != nil {
				return err
			}
			id, err := schedule.ParseID(uuid.String)
			if err != nil {
				return nil // The server's comparison is not that of uuids.
			}
			if all[id] = (Awaited{host.String, node.String, vm.String, task.String, utc(created)}); hidden {
				delete(all, id) // the copy of a resize between cells
			}
			return nil
		})
	return all, err
}

// nodesOfAwaited reads the rows of the hosts that awaited instances are on again. Those that
// were kept by their stamp may be of before: a stamp is to the second.
func (r *Reader) nodesOfAwaited(ctx context.Context, s *session, x *Snapshot) error {
	if x.Full {
		return nil // All were read in this transaction.
	}
	type place struct{ host, node string }
	at := map[place]bool{}
	for _, a := range x.Awaited {
		if a.Host != "" {
			at[place{a.Host, a.Node}] = true
		}
	}
	if len(at) == 0 {
		return nil
	}
	services := x.servicesByID()
	var ids []int64
	for i := range x.nodes {
		if n := &x.nodes[i]; at[place{n.hostName(services), n.row.node.String}] {
			ids = append(ids, n.row.id)
		}
	}
	return r.nodesAgain(ctx, s, x, ids)
}
