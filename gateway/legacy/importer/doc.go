// Package importer keeps a cell's shard filled from its legacy database until the
// cell's own agents speak for its hosts: rows of compute_nodes become hosts, rows of
// instances become the instances on them, in the form in which an agent reports them.
//
// It decides nothing: the cell adopts, confirms and releases claims as it does for a
// report of an agent. While the cell's gate is LEGACY or SHADOW the rows speak for every host. Once it
// is NATIVE a host is left to its agent, but for what no agent knows: aggregates and allocation ratios,
// and the instances where the agent does not know them; a host without an agent is the rows' still. Whoever
// watches the gate says when a step is made, and which gateway makes it.
//
// Of a host whose agent knows its instances the cell hears which rows are deleted, again until
// it has no claim of them: it ends those that the agent does not report either.
//
// # What a host holds
//
// An instance is on the host whose compute_nodes row has the host and node of its
// instances row. It holds VCPU, MEMORY_MB and DISK_GB of the amounts of that row: disk
// is root and ephemeral, since the row has no swap. The root disk of an instance that
// boots from a volume is on no host: an empty image_ref tells it, and where it does not,
// instances hold no more of a disk together than its compute_nodes row has in use. A row
// that is deleted, is on no host, or whose vm_state is deleted or shelved_offloaded
// holds nothing; one in error that has a host does. A row with an amount that is NULL
// is left out, counted and named.
//
// While an instance is resized or migrated its row is of one host: the old one until
// its task_state is resize_migrated, then the new one. What the other host keeps for
// it is in that host's compute_nodes row, and so unaccounted for there.
//
// # What is unaccounted for
//
// A compute_nodes row says how much is in use in all: what Nova keeps for the host
// itself, instances, both ends of migrations, and overhead. What is in use beyond the instances that are imported is unaccounted for:
//
//	unaccounted = in use by the row - held by its instances, at least 0
//
// so that the shard's room, total * ratio - unaccounted - held, is the row's,
// total * ratio - in use. It is less where the row says less than its instances hold.
//
// disk_available_least, what is free as it was measured, has other files too. Nova weighs by
// it, and Placement, which says what fits, knows nothing of it. So what it lacks beyond what is in
// use is sent apart (Inventory.filled).
//
// # When an instance counts
//
// An instances row is written a moment before its compute_nodes row. So an instance
// counts from the second pass that has it on its host, with compute_nodes read after
// the first one: until then the row's usage is unaccounted for, beside a claim for the instance.
// In the first pass of an Importer's life, and in the first after another gateway imported,
// rows that were not written for two minutes count at once, and hosts that have others
// wait for the next pass. The same holds after a pass that may have read older rows than one
// before it: instances that come back with a newer server may have claims, and a report without
// them would end these.
//
// # Idempotence
//
// A life sends a state again only when it differs from what the cell took, when the
// cell said that an instance has a claim elsewhere, and after a full pass. Every life,
// of any gateway, uses the same boot_id, and how new its data are as the
// version: a state that is older than the shard's changes nothing. So a step may be
// broken off anywhere, by a crash too, and the next one goes on.
//
// # Replicas that are behind
//
// A gateway may read a replica of Nova's database whose rows are behind, and the clock of
// its server does not tell. How new data are is the newest time that somebody wrote: a
// heartbeat, most often (novadb.Snapshot.Written). Data that are older than those of a step
// before are not imported. A claim neither ends nor shrinks by rows of instances
// that were not written since the claim was: its instance may be newer than they are. Whoever deletes or moves an
// instance writes to its row. One whose row is purged before anybody read that has its claim until
// another row of the table is written, or heartbeats are ten minutes newer.
//
// Tests that hold this: TestHeldIsWhatTheRowsSay (a property, against a naive oracle),
// TestCrashes….
package importer
