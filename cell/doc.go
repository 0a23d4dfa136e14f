// Package cell is one scheduler replica of one cell: it composes the rooms below it and serves
// gateways. It decides nothing: schedule ranks, shard.Decide claims.
//
//	agents ──► agents ─┐                      ┌─► propose.go ──► gateways
//	gateways ► claims.go ► replica: queue ► lane, table
//	             gate, reconcile ─┘
//
//	replica    the shard's rows and the table, the lane, the journal, leases
//	agents     agents' streams, states and verdicts
//	gate       who reports hosts under upgrade
//	reconcile  findings and repairs
//	liveness   which hosts are silent
//
// What holds here; each room's doc.go has its own:
//
//   - Decisions (decisions.go) go to the store beside the lane; no claim waits for them.
//   - A version named in a proposal answers for Config.SnapshotTTL; after that, or in another
//     incarnation of the replica, it is GONE.
//   - What a move to another cell left is not released while its host reports the instance.
//   - Nothing is lost by a restart: everything is in the shard but when hosts were last seen;
//     which of them are silent is (I8).
package cell
