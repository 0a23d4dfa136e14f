// Package standin answers for a cell that cannot answer itself yet: it proposes hosts
// of the rows that package legacy read from Nova's own database, by the same code as a
// cell does (internal/proposing, schedule), so that equal hosts give equal answers (I6).
//
// It ranks and remembers; it claims nothing, writes nothing, and asks no one but, for
// requests that name instances, Config.Find. Claims, what a request has already
// (Proposal.claims), and the gate's epoch (Proposal.gate_epoch) are the cell's: the
// gateway asks it, and the stand-in leaves them empty.
//
//	legacy.Snapshot ──┐             known.go   what the cell has not seen on hosts yet
//	                  │             shown.go   and which of it is in the rows already
//	awaited claims ───┼─ Update ──► host.go    a row, and what is on it, as a host
//	own choices ──────┘             room.go    and not more than the shard has left
//	                                edit.go    only what changed, as the next table
//	query ──────────── ProposeBatch ► named.go instances that it names ► proposing
//
// # What a host has
//
// VCPU, MEMORY_MB and DISK_GB of one provider, the compute node, with the totals and
// ratios of its row and no reserved amounts, since what Nova keeps for a host is among
// what is used. No traits and no child providers: the tables have none, so a request
// for PCPU, for a trait or for a custom class finds nothing here. NUMA cells, PCI
// pools, metrics, stats and the rest are those of the row's texts.
//
// Used is what the row says and what awaited claims and own choices hold that the row
// does not show. They count as io operations, too, as claims do in a cell whose
// instance is not there yet. A PENDING claim's NUMA cells and devices are taken when it
// is a choice of this gateway: the cell's list does not say what others take of them,
// and the cell refuses a claim for what is taken.
//
// # What the shard has left
//
// The shard may have less room than that: it has claims which no row ever shows. What it
// said of a host (Refused, Rooms) counts for Config.RoomFor, less what was claimed there
// since and more what was given back: in use is then capacity - left, where that is
// more. Among the reject counts of a proposal that nothing passed such hosts are
// ShardFilter's. What weighers see is the rows' all the same.
//
// # When a claim shows
//
// A claim is known from when this gateway chose it, or heard that the cell awaits it,
// until one of:
//
//   - The cell was asked at least Config.Lag after that, its answer did not list the
//     claim, and the rows were read after the answer. The cell lists a claim until a
//     report of its host has the instance, and the importer reports an instance only
//     with a row of its host that was read after it was there: so the row has it.
//   - It is a choice whose time is over, and the cell's last answer did not list it.
//   - The gateway was told that it ended.
//
// Lag covers that an answer may come from a replica that has not read yet what another one
// committed. All that takes seconds; meanwhile a claim counts beside the rows but where they show
// it: rows are asked for the instances of known claims, in the transaction in which those of the
// hosts are read, and say of each how far Nova is with it (legacy.Snapshot.Stage). So in every order
// of choice, answer and rows an instance counts at least once from when it is known. It counts
// twice, in the row and beside it, while the rows do not tell: when it became active before any rows
// had it on its way, when it is moved, between two commits of nova-compute, when instances cannot be
// read, and of more than 2,000 claims the longest known.
//
// # Who is where
//
// The rows of compute_nodes do not say which instances a host has. For server groups
// and the hints same_host and different_host the instances that a request names are
// looked up in the table instances when it is asked, by Config.Find, and kept for
// Config.FindFor; Proposal.group_hosts are the hosts that these, awaited claims and
// choices are on. Members that nobody named are not known. Without Find only claims and
// choices are known, and the service hosts that the request itself names (which is what
// Nova's conductor sends for affinity; anti-affinity is then decided by the claim).
// TypeAffinityFilter and ImagePropertiesWeigher see only own choices: the flavors and
// images of all instances are not read.
//
// Tests that hold this: TestI6_…, TestConsumption…, TestIncremental…, TestRoom…, and
// TestGoldenFromDatabases of schedule/nova.
package standin
