// Package cell is one scheduler replica of one cell. It composes the packages below it (rooms) and
// serves gateways. It decides nothing: package schedule ranks hosts, and shard.Decide judges claims.
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
// Rules of this package; each room's doc.go has its own:
//
//   - Decisions (decisions.go) go to the store beside the lane; no claim waits for them.
//   - A table version that a proposal names can be queried for Config.SnapshotTTL. After that, or in
//     another incarnation of the replica, it is GONE.
//   - The claim that a move to another cell leaves behind is not released while its host reports the
//     instance.
//   - A restart loses nothing (I8): everything is in the shard except when each host was last seen.
//     Which hosts are silent is in the shard, too.
package cell
