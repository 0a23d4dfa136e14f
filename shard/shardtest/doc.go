// Package shardtest is the conformance suite that every shard.Store passes. Each
// topic has its own file, and each test opens a fresh store. The package also helps
// to test a store's users: it makes rows (NewHost, NewClaim) and faults (Faulty).
//
//	func TestConformance(t *testing.T) { shardtest.Run(t, backend) }
//
// These files test the clauses of the contract:
//
//	shard.Store    Now                   time.go
//	               OpenLane, Close       lanes.go, restart.go
//	               Trim                  trim.go
//	shard.Lane     Apply                 lanes.go, badinput.go
//	shard.Synchronizer
//	               Load                  load.go
//	               Tail                  journal.go
//	shard.Reader   FindClaims            find.go
//	               Due                   expire.go
//	shard.Decisions                      decisions.go
//	shard.Op       Claim                 claims.go, moves.go
//	               Swap                  swap.go
//	               Transfer              moves.go
//	               Confirm               confirm.go
//	               Release, TakeOver     release.go
//	               Expire                expire.go
//	               RecordVerdict         verdict.go
//	               Pin, Unpin            pins.go
//	               PutHost               puthost.go, imports.go
//	               WritePlacement, PutName, DeleteName  placement.go
//	               MoveGate              gate.go
//	               PutFacts              facts.go
//	               SetAdminState, SetNovaState, SetSilent, EndMaintenance  adminstates.go
//	               RemoveHost            removehost.go
//	               Audit                 audit.go
//	I1, I2         any concurrency       locks.go, linearizable.go, moves.go
//	I3             restarts, crashes     history.go, restart.go
//	               attempts given up     release.go
//	I4             leases                expire.go
//	I9             groups and pins       groups.go, pins.go, confirm.go
//
// A clause tests what a store must do and what the naive rules of package shard's tests do not judge. All other rules of
// shard.Decide are compared with the naive ones there; and history.go compares a store under random operations with
// Decide on all rows. Storm sends random operations through failing lanes and runs every checker.
//
// The backend's own tests cover that backend's own faults: a failed sync, a power
// loss at any moment, a foreign directory.
package shardtest
