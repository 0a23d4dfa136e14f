// Package proposals answers a Query of the private API from a schedule.Table. Package
// wire decodes the query and encodes the Proposal.
//
// It has no table of its own, knows no claims, and starts nothing that outlives a call.
//
//	query → shapes.go → versions.go, memory.go → propose.go → answer
//
// Rules:
//
//   - Placements with equal bytes are parsed once while they are in use (shapes.go). Filter results for
//     them are cached, within 64 MiB (memory.go).
//   - A version that a proposal named can be queried for a while. After that, or in another incarnation
//     of the replica that named it, it is GONE (versions.go).
package proposals
