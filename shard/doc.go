// Package shard is the contract of a cell's transactional store, and the rules
// of claims.
//
// A shard owns everything about a cell that must survive: hosts, what services report of them, the states that
// operators set, claims, group pins and the journal. For people it also keeps recent decisions. A backend keeps the
// rows and gives serializable transactions; it decides nothing. Decide does that for every backend, as a pure
// function of the rows that a batch of operations reads.
//
//	lane.Apply(ops):   rows := read(ReadSet(ops))
//	                   d := Decide(now, rows, ops)
//	                   write d.Changes as rows, and as one journal entry
//	                   (lane, seq+1); commit
//
// Package shardtest lists all guarantees and tests them. The main ones:
//
//   - I1: a new claim never takes a provider over capacity, nor a NUMA cell's pages, a
//     dedicated CPU or a PCI device that another claim has. Adopted claims
//     (instances a host reports) may; they are counted.
//   - I2: a consumer has at most one live claim on a compute in a shard, and beside it one
//     that moves it. The Placement API may write more (MayCoexist).
//   - I3: what Apply acknowledged is durable.
//   - I9: anti-affinity limits and pins of affinity groups hold.
//   - A lane's journal has no gaps. A reader's cursor is a position in every lane, so a reader
//     misses nothing when transactions commit in another order than their numbers.
//
// Time in a shard is the store's, never the caller's.
//
// The package imports the standard library, internal/fault and, for the fit of NUMA cells
// and PCI devices, schedule, which is as pure as this one.
package shard
