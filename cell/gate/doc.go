// Package gate holds the rules of a cell under upgrade: whether Nova's tables or agents report its
// hosts. It is pure except for Keeper, which remembers what gateways report. It writes nothing to the
// shard.
//
//	gate.go           Keeper: the gateways' reports, which of them imports, how new their rows are
//	rules.go          Rules.Judge: where the gate should be; tally.go counts the evidence
//	compare.go        how an agent's host differs from its imported row
//	unclaimed.go      instances of Nova's tables without a claim
//	pinrules.go       the gate's row after an operator pinned it, or let it go
//	servicestatus.go  what Nova's services say of hosts, and what of it is to be written
//	wire.go           messages
package gate
