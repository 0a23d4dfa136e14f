// Package placement is a cell's part of the Placement API (docs/adr/0029): the provider trees, allocations and custom
// names of its shard, over gRPC (cellgate.cell.v1.CellPlacement).
//
//	read.go        providers, consumers, usages and names, from the replica's rows
//	candidates.go  allocation candidates, from trees that are built once for each version of their rows
//	write.go       one transaction of the shard (shard.WritePlacement), through the replica's queue
//
// Reads wait until the replica has everything that others wrote before. Trees of importers are not
// shown: nova-compute creates its provider itself. Names and uuids of providers are unique in a cell
// only as far as its replica knows: if two replicas create the same provider at the same moment, both
// succeed.
package placement
