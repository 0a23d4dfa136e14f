// Package proposals answers a Query of the private API from a schedule.Table. Package
// wire decodes the query and encodes the Proposal.
//
// It has no table of its own, knows no claims and starts nothing that outlives a call.
//
//	query → shapes.go → versions.go, memory.go → propose.go → answer
//
// What holds:
//
//   - Equal placements, as bytes, are read once while they are asked for (shapes.go),
//     and what filters found out for them is kept, within 64 MiB (memory.go).
//   - A version that was named in a proposal answers for a while; after that, or in
//     another run of the replica that named it, it is GONE (versions.go).
package proposals
