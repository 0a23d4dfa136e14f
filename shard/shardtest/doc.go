// Package shardtest says what every shard.Store does: one conformance suite for
// all backends, one file a topic, a fresh store a test. It also has what tests
// of a store's users need: rows made to measure, and Faulty.
//
//	func TestConformance(t *testing.T) { shardtest.Run(t, backend) }
//
// The clauses of the contract and the files whose tests hold them:
//
//	shard.Store    Now                   time.go
//	               OpenLane, Close       lanes.go, restart.go
//	shard.Lane     Apply                 lanes.go, badinput.go
//	shard.Synchronizer
//	               Load                  load.go
//	               Tail                  journal.go
//	shard.Reader   FindClaims            find.go
//	               Due                   expire.go
//	shard.Journal  Trim                  trim.go
//	shard.Decisions                      decisions.go
//	shard.Op       Claim                 claims.go, moves.go
//	               Swap                  swap.go
//	               Transfer              transfer.go
//	               Confirm               confirm.go
//	               Release               release.go, attempts.go
//	               TakeOver              attempts.go
//	               Expire                expire.go
//	               RecordVerdict         verdict.go
//	               Pin, Unpin            pins.go
//	               PutHost               puthost.go, imports.go
//	               WritePlacement, PutName, DeleteName  placement.go
//	               MoveGate              gate.go
//	I1, I2         any concurrency       locks.go, linearizable.go, moves.go
//	I3             restarts, crashes     restart.go
//	               attempts given up     attempts.go
//	I4             leases                expire.go
//	I9             groups and pins       groups.go, pins.go, confirm.go
//
// Beyond the clauses there are Storm, random operations through lanes that fail, with
// every checker on, and Metamorphic, the same operations on every store.
//
// What needs a backend's own faults (a sync that fails, power lost at any
// moment, a foreign directory) is in the backend's own tests. The rules
// themselves are held against naive ones in package shard.
package shardtest
