// Package agents serves the agents of a cell's hosts: one stream a host and replica.
//
//	service.go       Service, and the messages of one stream
//	registration.go  a state on its way into the shard; delta.go, fullstate.go, statefacts.go read it
//	incarnations.go  two agent incarnations of one host: which one is active, and who is asked again
//	refused.go       a host whose newest state is refused
//	admit.go         limits of hosts
//	streams.go       the streams, by host; reports.go: what was reported on them last
//	heldstate.go     what else of a cell asks of reports
//	verifier.go      claims are offered to agents (offers.go), which give verdicts (verdicts.go,
//	                 doubts.go)
//
// A verdict does not end a lease. It ends a claim in two cases: in sync mode, before the caller is
// answered, and when a host gives back a confirmed claim.
package agents
