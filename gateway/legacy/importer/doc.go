// Package importer writes Nova's rows into a cell's shard: each row of compute_nodes becomes a host, each row of
// instances an instance on it, in the form of an agent's reports. It decides nothing. The cell adopts, confirms and
// releases claims as it does for a report of an agent.
//
// While the cell's gate is LEGACY or SHADOW, the rows count for every host. When it is NATIVE, they count for hosts
// without an agent. For other hosts, only what no agent knows is taken from them: aggregates, allocation ratios,
// instances if the agent has no list of them, and deleted instances.
//
// # What a host holds
//
// An instance is on the host that its row names. It holds VCPU, MEMORY_MB and DISK_GB of its row; disk is root and
// ephemeral, since the row has no swap.
//
//   - Deleted, on no host, vm_state deleted: holds nothing.
//   - vm_state shelved_offloaded: holds nothing, unless its compute spawns it (nova/compute/vm_states.py,
//     allow_resource_removal). An unshelve changes vm_state at its end.
//   - vm_state error with a host: holds its amounts.
//   - Booted from a volume (image_ref is empty): holds no root disk. Where image_ref
//     does not tell, instances hold together at most the disk that compute_nodes has in use.
//   - An amount that is NULL: the row is left out, counted and named.
//   - Resized or migrated: it is on the old host until task_state is resize_migrated,
//     then on the new one. What the other host keeps for it is unaccounted for there.
//
// # What is unaccounted for
//
// compute_nodes has the total in use: by instances, by both ends of migrations, as overhead, and by the host itself.
// The part beyond the imported instances is
//
//	unaccounted = in use by the row - held by its instances, at least 0
//
// so that the shard's room, total * ratio - unaccounted - held, is the row's room.
//
// disk_available_least is the measured free disk, with other files counted. Nova weighs by it. Placement decides what
// fits, and does not know it. So the measured use beyond the disk in use is sent as a value of its own
// (Inventory.filled).
//
// # When an instance counts
//
// When nova-compute claims for an instance that it builds, it writes in this order: an empty task_state; the host, to
// the row of instances; the amounts in use (devices and dedicated CPUs too), to compute_nodes; the first task, to
// task_state. So a row with vm_state building and no task_state is claiming: compute_nodes may lack the instance. If
// the row was not written for two minutes, its compute has stopped, and it no longer counts as claiming.
//
// An instance counts from the second pass that finds it on its host and not claiming, if compute_nodes was read after
// the first of these. Until then its usage is unaccounted for, and its request's claim holds its devices and
// dedicated CPUs.
//
// In three kinds of passes, rows that were not written for two minutes count at once, and hosts with other rows wait
// for the next pass: the first pass of an Importer, the first after another gateway imported, and the one after a
// pass that may have read older rows than the pass before it.
//
// # Crashes and replicas
//
// Every gateway sends the same boot_id. The version is the age of its data: the newest time that was written to the
// tables (novadb.Snapshot.Written), since a database replica that is behind has a current clock. Older data change
// nothing. So a pass may stop anywhere, and the next one goes on. A state is sent again if it differs from the one
// that the cell took, if the cell answered that an instance has a claim elsewhere, and after a full pass.
//
// Rows of live instances that were not written since a claim was made neither end nor shrink that claim. A deleted
// row ends the claim, since such a row is never live again. If a row was purged before a gateway read its deletion,
// the claim stays until another row of the table is written, or heartbeats are ten minutes newer.
//
// Tests: TestHeldIsWhatTheRowsSay (a property, against a naive oracle) and TestCrashes….
package importer
