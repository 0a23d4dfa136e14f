// Package cell is the shell around the core: one scheduler replica of one cell.
//
// It keeps the cell's hosts in a schedule.Table built from the shard, answers
// proposals from it, commits claims through its lane of the shard, and hears
// the hosts' agents. It decides nothing: schedule ranks, shard.Decide claims.
//
//	agents ──► agents.go ─┐                       ┌─► propose.go ──► gateways
//	gateways ► claims.go ─┼► pipeline.go ► lane   │
//	leases.go ────────────┘       │ changes       │
//	                              ▼               │
//	other lanes ► follow.go ► writer.go ► proposing.Versions
//
// What holds:
//
//   - One goroutine, the writer, makes new versions of the table; readers load
//     one pointer. A scan never waits for a claim.
//   - An instance that is moved is on both its hosts in the table, and a transferred
//     claim is its instance's there.
//   - Decisions (decisions.go) go to the store beside the lane; no claim waits for
//     them.
//   - A claim is acknowledged after the table shows it: the next proposal of
//     this replica counts it.
//   - A claim on a host whose agent verifies is offered to it once the table shows it
//     (verify.go). Its verdict ends no lease. It ends a claim that nobody was answered
//     with, in sync mode, and a confirmed one that its host gives back (abort_test.go).
//   - A delta of a host's state is applied to the state that its stream holds, and goes on
//     as a whole one (delta.go, takestate.go).
//   - Claims go before registrations: at most an eighth of a transaction is
//     registrations while claims wait.
//   - A version named in a proposal answers for PinFor; after that, or in another
//     life of the replica, it is GONE.
//   - While the table is loaded, queries are answered from small ones, of hosts that the
//     store finds itself (cold.go, hostquery.go), as they would be from the whole; what
//     could not be is refused.
//   - A replica proposes from a table that is at most maxBehind (2 s) behind what other
//     replicas did: one that stood still reads the journal first (follow_wait.go), and does
//     not take its hosts for silent (liveness.go). One whose lane was fenced ends.
//   - What the shard, the table and the hosts' reports do not agree on is found
//     (reconcile.go). A claim is released only on its host's word that the instance is
//     gone, and the shard checks that it still is the word. What a move to another cell
//     left is not released while its host reports the instance (claims.go).
//   - A lease ends once, in store time (shard.Due, Expire).
//   - Nothing is lost by a restart: everything is in the shard but when hosts were heard; which
//     of them are silent is (I8, silence.go).
package cell
