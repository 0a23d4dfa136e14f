// Package wire converts between the types of package schedule and the messages of the private API
// cell.v1, with encoders beside decoders: placements and their rules, queries, proposals. Gateways
// encode queries and decode proposals; cells do the reverse.
//
//	placement.go  Request          rules.go   Rules, Options
//	nova.go       NovaRequest      hardware.go  NUMA, PCI devices
//	query.go      Query, GlobalStats proposal.go, candidates.go  Proposal
//
// Decoding does not trust the sender: it checks ranges, lengths and uuids. Fields collects all problems
// of a query with their paths; DecodeProposal stops at the first one.
//
// Invariant: decode(encode(x)) == x for every field. TestRequest_EveryField_RoundTrips and similar
// tests fill the types by reflection, so they fail if a new field is not converted here.
package wire
