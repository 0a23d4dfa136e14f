// Package wire converts between the core's types and the messages of the private API
// cell.v1, with encode beside decode: placements and their rules, queries, proposals.
// Gateways encode queries and decode proposals, cells the other way round.
//
//	placement.go  Request          rules.go   Rules, Options
//	nova.go       NovaRequest      hardware.go  NUMA, PCI devices
//	query.go      Query, GlobalStats proposal.go, candidates.go  Proposal
//
// Decoding does not trust the sender: it checks ranges, lengths and uuids. Fields
// collects all problems of a query with their paths; DecodeProposal stops at the first.
//
// Invariant: decode(encode(x)) == x for every field. TestRequest_EveryField_RoundTrips
// and its neighbours fill the core's types by reflection, so a new field without a line
// here fails them.
package wire
