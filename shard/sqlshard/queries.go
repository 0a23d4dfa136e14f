package sqlshard

import (
	"fmt"
	"strings"
)

// The statements of transactions, in the order in which they run. Lists are arrays, so a statement does not depend on
// the number of rows, and is prepared once for each connection. They are sorted, so that transactions lock in one
// order.
//
// They run unchanged on CockroachDB from the 20.2 line and PostgreSQL from 13. For that, set-returning functions are
// in select lists, never in FROM, and parameters have types.

// Locks.
const (
	// readLane reads whether a lane is fenced, the server's time, and hasEntry. It runs after the locks, so the time of
	// a transaction that waited is later than that of the one it waited for.
	readLane = `SELECT fenced, clock_timestamp(), ` + hasEntry

	// hasEntry is whether entry $3 of the lane exists or was trimmed.
	hasEntry = `floor >= $3::int8 OR EXISTS (SELECT 1 FROM journal
WHERE replica = $1::text AND incarnation = $2::int8 AND seq = $3::int8)
FROM lanes WHERE replica = $1::text AND incarnation = $2::int8`

	// lockLane is for PostgreSQL. If a transaction of the lane lost its connection in its commit, it locks the row
	// until it ends.
	lockLane = readLane + ` FOR UPDATE`

	// lockGate is for moves of the gate; other transactions only read it (readGate).
	lockGate = readGate + ` FOR UPDATE`

	lockHosts = `SELECT host_uuid, host_generation, generation, pending, confirmed, used, admin FROM host_usages
WHERE host_uuid = ANY($1::text[]) ORDER BY host_uuid FOR UPDATE`

	lockConsumers = `SELECT consumer_uuid FROM consumers
WHERE consumer_uuid = ANY($1::text[]) ORDER BY consumer_uuid FOR UPDATE`

	lockGroups = `SELECT group_uuid FROM server_groups
WHERE group_uuid = ANY($1::text[]) ORDER BY group_uuid FOR UPDATE`

	lockPins = `SELECT body FROM pins
WHERE group_uuid = ANY($1::text[]) ORDER BY group_uuid FOR UPDATE`
)

const lockNames = `SELECT name FROM custom_names WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE`

const serverTime = `SELECT clock_timestamp()`

// Reads.
const (
	// readGate runs after the locks, so a transaction that waits for them reads a later gate. A state whose
	// transaction reads the row before a move commits counts as put before the move.
	readGate = `SELECT body FROM gate WHERE id = 0`

	readClaimsOfConsumers = `SELECT c.body FROM claims@claims_by_consumer c WHERE c.consumer_uuid = ANY($1::text[])`

	readClaimsOfHosts = `SELECT c.body FROM claims@claims_by_host c WHERE c.host_uuid = ANY($1::text[])`

	readTransferred = `SELECT c.body FROM transfers t INNER LOOKUP JOIN claims c ON c.claim_key = t.claim_key
WHERE t.first_consumer = ANY($1::text[])`

	// readStanding reads claims by key, by consumer, and by first consumer, as of one moment: a claim that ends moves
	// from one table to the other. The outermost WHERE gives CockroachDB of the 20.2 line the types of parameters.
	readStanding = `SELECT body FROM (SELECT c.body FROM claims c WHERE c.claim_key = ANY($1::text[])
UNION ALL SELECT c.body FROM ended_claims c WHERE c.claim_key = ANY($1::text[])
UNION ALL SELECT c.body FROM claims@claims_by_consumer c WHERE c.consumer_uuid = ANY($2::text[])
UNION ALL SELECT c.body FROM transfers t INNER LOOKUP JOIN claims c ON c.claim_key = t.claim_key
WHERE t.first_consumer = ANY($2::text[])) AS standing WHERE $1::text[] IS NOT NULL AND $2::text[] IS NOT NULL`

	readMembers = `SELECT c.body FROM group_members m INNER LOOKUP JOIN claims c ON c.claim_key = m.claim_key
WHERE m.group_uuid = ANY($1::text[])`
)

// Hosts by their uuids.
const (
	readHosts = `SELECT body FROM hosts WHERE host_uuid = ANY($1::text[]) ORDER BY host_uuid`

	readNamespaces = `SELECT host_uuid, name, facts, generation FROM host_namespaces
WHERE host_uuid = ANY($1::text[]) ORDER BY host_uuid, name`
)

// hostUsageRows is the part of a statement that has whole rows.
const hostUsageRows = `host_usages (host_uuid, host_generation, generation, pending, confirmed, used, admin, withheld)
SELECT unnest($1::text[]), unnest($2::int8[]), unnest($3::int8[]), unnest($4::int8[]), unnest($5::int8[]), unnest($6::text[]), unnest($7::bytea[]), unnest($8::bool[])`

// Guard rows are inserted without ON CONFLICT. If another transaction was faster, that is a unique violation, and the
// transaction runs again and sees the row.
const (
	insertHostUsages = `INSERT INTO ` + hostUsageRows

	insertConsumers = `INSERT INTO consumers (consumer_uuid, project_id, user_id, consumer_type, generation)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), 'INSTANCE', 1`

	insertGroups = `INSERT INTO server_groups (group_uuid, policy, generation)
SELECT unnest($1::text[]), unnest($2::text[]), 1`

	insertPins = `INSERT INTO pins (group_uuid, body) SELECT unnest($1::text[]), unnest($2::bytea[])`
)

// Rows that are locked, or guarded by a locked row, are overwritten.
const (
	putHostUsages = insertHostUsages + `
ON CONFLICT (host_uuid) DO UPDATE SET host_generation = excluded.host_generation,
generation = excluded.generation, pending = excluded.pending, confirmed = excluded.confirmed, used = excluded.used,
admin = excluded.admin, withheld = excluded.withheld`

	// upsertHostUsages is for CockroachDB: it does not read a row before it writes it.
	upsertHostUsages = `UPSERT INTO ` + hostUsageRows

	putConsumers = `UPDATE consumers SET generation = generation + 1 WHERE consumer_uuid = ANY($1::text[])`

	putGroups = `UPDATE server_groups SET generation = generation + 1 WHERE group_uuid = ANY($1::text[])`

	putPins = insertPins + `
ON CONFLICT (group_uuid) DO UPDATE SET body = excluded.body`

	insertGate = `INSERT INTO gate (id, body) VALUES (0, $1::bytea)`
	putGate    = `UPDATE gate SET body = $1::bytea WHERE id = 0`

	putNamespaces = `INSERT INTO host_namespaces (host_uuid, name, facts, generation)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::int8[])
ON CONFLICT (host_uuid, name) DO UPDATE SET facts = excluded.facts, generation = excluded.generation`

	deleteNamespaces = `DELETE FROM host_namespaces WHERE host_uuid = $1::text AND name = ANY($2::text[])`

	insertCustom = `INSERT INTO custom_names (name) SELECT unnest($1::text[])`
	deleteCustom = `DELETE FROM custom_names WHERE name = ANY($1::text[])`

	deletePins = `DELETE FROM pins WHERE group_uuid = ANY($1::text[])`
)

// putHosts writes registrations.
const putHosts = `INSERT INTO hosts (host_uuid, service_host, node_name, disabled,
inventories, traits, child_classes, child_traits, aggregates, zones, body)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::bool[]),
unnest($5::text[])::jsonb, unnest($6::text[])::jsonb, unnest($7::text[])::jsonb, unnest($8::text[])::jsonb, unnest($9::text[])::jsonb, unnest($10::text[])::jsonb,
unnest($11::bytea[])
ON CONFLICT (host_uuid) DO UPDATE SET service_host = excluded.service_host, node_name = excluded.node_name, disabled = excluded.disabled,
inventories = excluded.inventories, traits = excluded.traits, child_classes = excluded.child_classes, child_traits = excluded.child_traits,
aggregates = excluded.aggregates, zones = excluded.zones, body = excluded.body`

// Claims: live ones are in one table, ended ones in another. New ones are inserted without ON CONFLICT, because the
// same claim_id may come through another replica at the same time.
const (
	claimRows = `
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::text[]), unnest($6::int8[]), unnest($7::bytea[])`

	overClaims = `
ON CONFLICT (claim_key) DO UPDATE SET consumer_uuid = excluded.consumer_uuid, host_uuid = excluded.host_uuid, project_id = excluded.project_id, body = excluded.body`

	insertClaims = `INSERT INTO claims (claim_key, consumer_uuid, host_uuid, project_id, slot, expires_at, body)` + claimRows
	putClaims    = insertClaims + overClaims + `, expires_at = excluded.expires_at`
	deleteClaims = `DELETE FROM claims WHERE claim_key = ANY($1::text[])`

	// An ended claim may exist already: an expired claim changes again when it is released.
	putEnded = `INSERT INTO ended_claims (claim_key, consumer_uuid, host_uuid, project_id, slot, ended_at, body)` + claimRows +
		overClaims + `, ended_at = excluded.ended_at`
	deleteEnded = `DELETE FROM ended_claims WHERE claim_key = ANY($1::text[])`

	insertMembers = `INSERT INTO group_members (group_uuid, claim_key) SELECT unnest($1::text[]), unnest($2::text[])`
	deleteMembers = `DELETE FROM group_members WHERE (group_uuid, claim_key) IN (SELECT unnest($1::text[]), unnest($2::text[]))`

	insertTransfers = `INSERT INTO transfers (first_consumer, claim_key) SELECT unnest($1::text[]), unnest($2::text[])`
	deleteTransfers = `DELETE FROM transfers WHERE (first_consumer, claim_key) IN (SELECT unnest($1::text[]), unnest($2::text[]))`
)

// The journal and the lanes.
const (
	insertEntry = `INSERT INTO journal (replica, incarnation, seq, written_at, entry) VALUES ($1::text, $2::int8, $3::int8, $4::int8, $5::bytea)`

	// touchLane runs when a commit of a lane is in doubt, before isEntryThere. On PostgreSQL it waits for the lost
	// transaction. On CockroachDB its write makes that transaction fail if it has not committed.
	touchLane    = `UPDATE lanes SET fenced = fenced WHERE replica = $1::text AND incarnation = $2::int8 RETURNING fenced`
	isEntryThere = `SELECT ` + hasEntry

	fenceLanes      = `UPDATE lanes SET fenced = true WHERE replica = $1::text AND incarnation < $2::int8 AND NOT fenced`
	lastIncarnation = `SELECT incarnation FROM lanes WHERE replica = $1::text ORDER BY incarnation DESC LIMIT 1`
	insertLane      = `INSERT INTO lanes (replica, incarnation, floor, fenced, opened_at) VALUES ($1::text, $2::int8, 0, false, $3::int8)`

	readLanes = `SELECT replica, incarnation, floor, fenced FROM lanes`
	lastEntry = `SELECT seq FROM journal WHERE replica = $1::text AND incarnation = $2::int8 ORDER BY seq DESC LIMIT 1`
)

// tailLanes is the part of readTail that reads the lanes.
const tailLanes = `SELECT -1::int8 AS nth, replica, incarnation AS number, floor AS at, fenced, NULL::bytea AS entry FROM lanes ORDER BY replica, incarnation`

// tailParameters is the number of readTail's parameters for each lane: its replica and incarnation, an entry's
// number, and the limit.
const tailParameters = 4

// readTail reads all lanes, and the entries of that many of them: the named entry without its body, if it exists, and
// those after it. Each lane has its own range in the text, because CockroachDB only joins with ranges from 21.2 on.
// nth is the lane's place in the parameters. Rows of lanes have a replica and fenced; rows of entries do not.
//
// All parameters are passed as text: within a UNION, CockroachDB of the 20.2 line takes no type from a parameter's
// cast. A condition outside of the UNION would give the types. Both servers copy such conditions into each part of the
// UNION, so that they would plan the journal of 200 lanes for minutes.
func readTail(lanes int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "SELECT nth, replica, number, at, fenced, entry FROM (\n(%s)", tailLanes)
	for n := range lanes {
		p := tailParameters * n
		fmt.Fprintf(&b, `
UNION ALL (SELECT %d::int8, NULL::text, seq, written_at, NULL::bool, CASE WHEN seq > $%d::int8 THEN entry END FROM journal
WHERE replica = $%d::text AND incarnation = $%d::int8 AND seq >= $%d::int8 ORDER BY seq LIMIT $%d::int8)`, n, p+3, p+1, p+2, p+3, p+4)
	}
	b.WriteString(") AS found")
	return b.String()
}

// Rows of the store itself.
const (
	nameCell = `INSERT INTO cell (id, name, cell_uuid) VALUES (0, $1::text, $2::text) ON CONFLICT (id) DO NOTHING`
	readCell = `SELECT name, cell_uuid FROM cell WHERE id = 0`

	reservedTime = `SELECT reserved FROM clock WHERE id = 0`
	reserveTime  = `INSERT INTO clock (id, reserved) VALUES (0, $1::int8)
ON CONFLICT (id) DO UPDATE SET reserved = greatest(clock.reserved, excluded.reserved)`
)
