// Package importer writes Nova's rows into a cell's shard: each row of compute_nodes
// becomes a host, each row of instances an instance on it, in the form in which an
// agent reports them. It decides nothing. The cell adopts, confirms and releases
// claims as it does for a report of an agent.
//
// While the cell's gate is LEGACY or SHADOW, the rows speak for every host. When it is
// NATIVE, they speak for hosts without an agent, and of the others for what no agent
// knows: aggregates, allocation ratios, instances when the agent has no list of them,
// and that an instance's row was deleted.
//
// # What a host holds
//
// An instance is on the host that its row names. It holds VCPU, MEMORY_MB and DISK_GB
// of its row; disk is root and ephemeral, since the row has no swap.
//
//   - Deleted, on no host, vm_state deleted or shelved_offloaded: holds nothing.
//   - vm_state error with a host: holds its amounts.
//   - Booted from a volume (image_ref is empty): holds no root disk. Where image_ref
//     does not tell, instances hold together at most the disk that compute_nodes has in use.
//   - An amount that is NULL: the row is left out, counted and named.
//   - Resized or migrated: it is on the old host until task_state is resize_migrated,
//     then on the new one. What the other host keeps for it is unaccounted for there.
//
// # What is unaccounted for
//
// compute_nodes says how much is in use in all: by instances, both ends of migrations,
// overhead, and the host itself. The part beyond the imported instances is
//
//	unaccounted = in use by the row - held by its instances, at least 0
//
// so that the shard's room, total * ratio - unaccounted - held, is the row's room.
//
// disk_available_least is the free disk as it was measured, with other files counted.
// Nova weighs by it, and Placement, which says what fits, does not know it. What it
// lacks beyond the disk in use is therefore sent apart (Inventory.filled).
//
// # When an instance counts
//
// When nova-compute claims for an instance that it builds, it empties task_state, writes
// the host to the row of instances, then what is in use with it (devices and dedicated
// CPUs too) to compute_nodes, and then the first task to task_state. So a row with
// vm_state building and no task_state is between: compute_nodes may lack the instance. One
// that nobody wrote for two minutes is not: its compute has stopped.
//
// An instance counts from the second pass that has it on its host and not between, if
// compute_nodes was read after the first. Until then its usage is unaccounted for, and its
// request's claim holds its devices and dedicated CPUs. In three passes rows that nobody
// wrote for two minutes count at once, and hosts with other rows wait for the next pass:
// the first of an Importer, the first after another gateway imported, and the one
// after a pass that may have read older rows than the pass before it.
//
// # Crashes and replicas
//
// Every gateway sends the same boot_id, and as version how new its data are: the newest
// time that somebody wrote to the tables (novadb.Snapshot.Written), since the clock of a
// database replica that is behind does not tell. Older data change nothing, so that a
// pass may be broken off anywhere and the next one goes on. A state is sent again when
// it differs from the one that the cell took, when the cell answered that an instance has a
// claim elsewhere, and after a full pass.
//
// A claim neither ends nor shrinks by rows of live instances that nobody wrote since the
// claim was made. A deleted row ends it: such a row is never live again. An instance whose row was purged before anybody read its deletion keeps its
// claim until another row of the table is written or heartbeats are ten minutes newer.
//
// Tests that hold this: TestHeldIsWhatTheRowsSay (a property, against a naive oracle)
// and TestCrashes….
package importer
