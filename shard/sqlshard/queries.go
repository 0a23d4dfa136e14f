package sqlshard

// The statements of transactions, in the order in which they run. Lists are arrays:
// a statement does not depend on how many rows it is for, and is prepared once a
// connection. They are sorted, so that transactions lock in one order.
//
// They are written to run unchanged on CockroachDB from the 20.2 line and PostgreSQL
// from 13: set-returning functions stand in the list of what is selected, never in
// FROM, and parameters have their types.

// Locks.
const (
	// lockLane reads a lane's position. A transaction of the lane whose connection
	// was lost holds the row until it ends.
	lockLane = `SELECT last, fenced FROM lanes WHERE replica = $1::text AND life = $2::int8 FOR UPDATE`

	// lockGate is for who moves the gate; claims read it (readGate).
	lockGate = readGate + ` FOR UPDATE`

	lockHosts = `SELECT host_uuid, host_generation, generation, pending, confirmed, used, admin FROM host_usages
WHERE host_uuid = ANY($1::text[]) ORDER BY host_uuid FOR UPDATE`

	lockConsumers = `SELECT consumer_uuid FROM consumers
WHERE consumer_uuid = ANY($1::text[]) ORDER BY consumer_uuid FOR UPDATE`

	lockGroups = `SELECT group_uuid FROM server_groups
WHERE group_uuid = ANY($1::text[]) ORDER BY group_uuid FOR UPDATE`

	lockPins = `SELECT group_uuid, service_host, holders FROM pins
WHERE group_uuid = ANY($1::text[]) ORDER BY group_uuid FOR UPDATE`
)

// serverTime is of the moment it runs, after the locks: what waited is later than
// what it waited for.
const serverTime = `SELECT clock_timestamp()`

// Reads.
const (
	// readGate runs after the locks: who then waits for them sees the gate as it is later.
	// A claim that reads the row before a move commits counts as made before it, and no
	// claim of the new epoch can have been made on the rows that this one has locked.
	readGate = `SELECT state, epoch, revision, since, reason, pin, pin_reason, return_to, held_since, held_until, falls FROM gate WHERE id = 0`

	claimColumns = `c.claim_key, c.consumer_uuid, c.state, c.host_uuid, c.service_host, c.allocations, c.project_id, c.user_id,
c.request_id, c.fingerprint, c.decision_id, c.instance_index, c.answer,
c.group_uuid, c.group_policy, c.group_max_per_host, c.group_members,
c.moves, c.moves_cell, c.transferred_from, c.attempt, c.adopted, c.expires_at, c.created_at, c.updated_at, c.guest, c.ttl, c.seen, c.verdict`

	// readClaims reads both tables as of one moment: a claim that ends goes from one to
	// the other.
	readClaims = `SELECT ` + claimColumns + ` FROM claims c WHERE c.claim_key = ANY($1::text[])
UNION ALL SELECT ` + claimColumns + ` FROM ended_claims c WHERE c.claim_key = ANY($1::text[])`

	readClaimsOfConsumers = `SELECT ` + claimColumns + ` FROM claims c WHERE c.consumer_uuid = ANY($1::text[])`

	readClaimsOfHosts = `SELECT ` + claimColumns + ` FROM claims c WHERE c.host_uuid = ANY($1::text[])`

	readTransfers = `SELECT ` + claimColumns + ` FROM transfers t JOIN claims c ON c.claim_key = t.claim_key
WHERE t.first_consumer = ANY($1::text[])`

	// readStanding is readClaims, readClaimsOfConsumers and readTransfers: what every new
	// claim asks. One statement costs the server less than three.
	readStanding = readClaims + `
UNION ALL SELECT ` + claimColumns + ` FROM claims c WHERE c.consumer_uuid = ANY($2::text[])
UNION ALL SELECT ` + claimColumns + ` FROM transfers t JOIN claims c ON c.claim_key = t.claim_key
WHERE t.first_consumer = ANY($2::text[])`

	readMembers = `SELECT ` + claimColumns + ` FROM group_members m JOIN claims c ON c.claim_key = m.claim_key
WHERE m.group_uuid = ANY($1::text[])`
)

// A host whole, by its uuid.
const (
	hostColumns = `host_uuid, generation, service_host, node_name, disabled, disabled_reason, io_workload, failed_builds,
hypervisor_type, hypervisor_version, host_ip, agent_version, boot_id, state_version, imported, instances_unknown, nova`

	readHosts = `SELECT ` + hostColumns + ` FROM hosts WHERE host_uuid = ANY($1::text[]) ORDER BY host_uuid`

	readFacts = `SELECT host_uuid, cpu_info, supported_instances, stats, metrics, numa_topology, pci_stats, namespaces
FROM host_facts WHERE host_uuid = ANY($1::text[])`

	readNamespaces = `SELECT host_uuid, name, facts, generation FROM host_namespaces
WHERE host_uuid = ANY($1::text[]) ORDER BY host_uuid, name`

	readProviders = `SELECT host_uuid, provider_uuid, parent_uuid, name FROM providers
WHERE host_uuid = ANY($1::text[]) ORDER BY host_uuid, ordinal`

	readInventories = `SELECT host_uuid, provider_uuid, resource_class, total, reserved, min_unit, max_unit, step_size, allocation_ratio, unaccounted
FROM inventories WHERE host_uuid = ANY($1::text[]) ORDER BY host_uuid, provider_uuid, ordinal`

	readTraits = `SELECT host_uuid, provider_uuid, trait FROM provider_traits
WHERE host_uuid = ANY($1::text[]) ORDER BY host_uuid, provider_uuid, ordinal`

	readAggregates = `SELECT host_uuid, aggregate_uuid, name, metadata FROM host_aggregates
WHERE host_uuid = ANY($1::text[]) ORDER BY host_uuid, ordinal`
)

// Rows that stand for what others read are inserted plainly: when somebody else was
// faster, that is a unique violation, and the transaction runs again and sees it.
const (
	insertHostUsages = `INSERT INTO host_usages (host_uuid, host_generation, generation, pending, confirmed, used)
SELECT unnest($1::text[]), unnest($2::int8[]), unnest($3::int8[]), unnest($4::int8[]), unnest($5::int8[]), unnest($6::text[])`

	insertConsumers = `INSERT INTO consumers (consumer_uuid, project_id, user_id, consumer_type, generation)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), 'INSTANCE', 1`

	insertGroups = `INSERT INTO server_groups (group_uuid, policy, generation)
SELECT unnest($1::text[]), unnest($2::text[]), 1`

	insertPins = `INSERT INTO pins (group_uuid, service_host, holders)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[])`
)

// Rows that are locked, or that a locked row stands for, are written over.
const (
	putHostUsages = insertHostUsages + `
ON CONFLICT (host_uuid) DO UPDATE SET host_generation = excluded.host_generation,
generation = excluded.generation, pending = excluded.pending, confirmed = excluded.confirmed, used = excluded.used`

	putConsumers = `UPDATE consumers SET generation = generation + 1 WHERE consumer_uuid = ANY($1::text[])`

	putGroups = `UPDATE server_groups SET generation = generation + 1 WHERE group_uuid = ANY($1::text[])`

	putPins = insertPins + `
ON CONFLICT (group_uuid) DO UPDATE SET service_host = excluded.service_host, holders = excluded.holders`

	insertGate = `INSERT INTO gate (id, state, epoch, revision, since, reason, pin, pin_reason, return_to, held_since, held_until, falls)
VALUES (0, $1::text, $2::int8, $3::int8, $4::int8, $5::text, $6::text, $7::text, $8::text, $9::int8, $10::int8, $11::int8)`

	putGate = `UPDATE gate SET state = $1::text, epoch = $2::int8, revision = $3::int8, since = $4::int8, reason = $5::text,
pin = $6::text, pin_reason = $7::text, return_to = $8::text, held_since = $9::int8, held_until = $10::int8, falls = $11::int8 WHERE id = 0`

	putNamespaces = `INSERT INTO host_namespaces (host_uuid, name, facts, generation)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::int8[])
ON CONFLICT (host_uuid, name) DO UPDATE SET facts = excluded.facts, generation = excluded.generation`

	deleteNamespaces = `DELETE FROM host_namespaces WHERE host_uuid = $1::text AND name = ANY($2::text[])`

	deletePins = `DELETE FROM pins WHERE group_uuid = ANY($1::text[])`
)

// A host's registration.
const (
	putHosts = `INSERT INTO hosts (` + hostColumns + `)
SELECT unnest($1::text[]), unnest($2::int8[]), unnest($3::text[]), unnest($4::text[]), unnest($5::bool[]), unnest($6::text[]),
unnest($7::int8[]), unnest($8::int8[]), unnest($9::text[]), unnest($10::int8[]), unnest($11::text[]), unnest($12::int8[]),
unnest($13::text[]), unnest($14::int8[]), unnest($15::bool[]), unnest($16::bool[]), unnest($17::text[])
ON CONFLICT (host_uuid) DO UPDATE SET generation = excluded.generation, service_host = excluded.service_host,
node_name = excluded.node_name, disabled = excluded.disabled, disabled_reason = excluded.disabled_reason,
io_workload = excluded.io_workload, failed_builds = excluded.failed_builds, hypervisor_type = excluded.hypervisor_type,
hypervisor_version = excluded.hypervisor_version, host_ip = excluded.host_ip, agent_version = excluded.agent_version,
boot_id = excluded.boot_id, state_version = excluded.state_version, imported = excluded.imported,
instances_unknown = excluded.instances_unknown, nova = excluded.nova`

	deleteFacts      = `DELETE FROM host_facts WHERE host_uuid = ANY($1::text[])`
	deleteProviders  = `DELETE FROM providers WHERE host_uuid = ANY($1::text[])`
	deleteStock      = `DELETE FROM inventories WHERE host_uuid = ANY($1::text[])`
	deleteTraits     = `DELETE FROM provider_traits WHERE host_uuid = ANY($1::text[])`
	deleteAggregates = `DELETE FROM host_aggregates WHERE host_uuid = ANY($1::text[])`

	insertFacts = `INSERT INTO host_facts (host_uuid, cpu_info, supported_instances, stats, metrics, numa_topology, pci_stats, namespaces)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::text[]), unnest($6::text[]), unnest($7::text[]),
unnest($8::text[])`

	insertProviders = `INSERT INTO providers (host_uuid, ordinal, provider_uuid, parent_uuid, name)
SELECT unnest($1::text[]), unnest($2::int8[]), unnest($3::text[]), unnest($4::text[]), unnest($5::text[])`

	insertInventories = `INSERT INTO inventories (host_uuid, provider_uuid, resource_class, ordinal, total, reserved, min_unit, max_unit, step_size, allocation_ratio, unaccounted)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::int8[]), unnest($5::int8[]), unnest($6::int8[]),
unnest($7::int8[]), unnest($8::int8[]), unnest($9::int8[]), unnest($10::float8[]), unnest($11::int8[])`

	insertTraits = `INSERT INTO provider_traits (host_uuid, provider_uuid, ordinal, trait)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::int8[]), unnest($4::text[])`

	insertAggregates = `INSERT INTO host_aggregates (host_uuid, ordinal, aggregate_uuid, name, metadata)
SELECT unnest($1::text[]), unnest($2::int8[]), unnest($3::text[]), unnest($4::text[]), unnest($5::text[])`
)

// Claims: the live ones in one table, those that ended in another. New ones are
// inserted plainly: the same claim_id may come through another replica at the same
// time.
const (
	claimFields = `claim_key, consumer_uuid, state, host_uuid, service_host, allocations, project_id, user_id,
request_id, fingerprint, decision_id, instance_index, answer, group_uuid, group_policy, group_max_per_host, group_members,
moves, moves_cell, transferred_from, attempt, adopted, expires_at, created_at, updated_at, guest, ttl, seen, verdict`

	claimRows = `(` + claimFields + `)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::text[]), unnest($6::text[]),
unnest($7::text[]), unnest($8::text[]), unnest($9::text[]), unnest($10::bytea[]), unnest($11::text[]), unnest($12::int8[]), unnest($13::bytea[]),
unnest($14::text[]), unnest($15::text[]), unnest($16::int8[]), unnest($17::text[]), unnest($18::text[]),
unnest($19::text[]), unnest($20::text[]), unnest($21::text[]), unnest($22::bool[]), unnest($23::int8[]), unnest($24::int8[]), unnest($25::int8[]),
unnest($26::bytea[]), unnest($27::int8[]), unnest($28::bool[]), unnest($29::text[])`

	// What else a claim has never changes.
	overClaims = `
ON CONFLICT (claim_key) DO UPDATE SET consumer_uuid = excluded.consumer_uuid, state = excluded.state,
host_uuid = excluded.host_uuid, service_host = excluded.service_host, allocations = excluded.allocations,
answer = excluded.answer,
transferred_from = excluded.transferred_from, attempt = excluded.attempt, expires_at = excluded.expires_at, updated_at = excluded.updated_at, guest = excluded.guest,
ttl = excluded.ttl, seen = excluded.seen, verdict = excluded.verdict`

	insertClaims = `INSERT INTO claims ` + claimRows
	putClaims    = insertClaims + overClaims
	deleteClaims = `DELETE FROM claims WHERE claim_key = ANY($1::text[])`

	// An ended claim may be there already: it changes once more when it expired and is
	// released then.
	putEnded    = `INSERT INTO ended_claims ` + claimRows + overClaims
	deleteEnded = `DELETE FROM ended_claims WHERE claim_key = ANY($1::text[])`

	insertMembers = `INSERT INTO group_members (group_uuid, claim_key) SELECT unnest($1::text[]), unnest($2::text[])`
	deleteMembers = `DELETE FROM group_members WHERE (group_uuid, claim_key) IN (SELECT unnest($1::text[]), unnest($2::text[]))`

	insertTransfers = `INSERT INTO transfers (first_consumer, claim_key) SELECT unnest($1::text[]), unnest($2::text[])`
	deleteTransfers = `DELETE FROM transfers WHERE (first_consumer, claim_key) IN (SELECT unnest($1::text[]), unnest($2::text[]))`

	insertLeases = `INSERT INTO leases (slot, expires_at, claim_key, consumer_uuid)
SELECT unnest($1::text[]), unnest($2::int8[]), unnest($3::text[]), unnest($4::text[])`
	deleteLeases = `DELETE FROM leases WHERE (slot, expires_at, claim_key) IN
(SELECT unnest($1::text[]), unnest($2::int8[]), unnest($3::text[]))`

	insertEnds = `INSERT INTO claim_ends (slot, ended_at, claim_key, consumer_uuid)
SELECT unnest($1::text[]), unnest($2::int8[]), unnest($3::text[]), unnest($4::text[])`
	deleteEnds = `DELETE FROM claim_ends WHERE (slot, ended_at, claim_key) IN
(SELECT unnest($1::text[]), unnest($2::int8[]), unnest($3::text[]))`
)

// The journal and the lanes.
const (
	// insertEntry adds to the journal, with the lane's position: one statement costs the
	// server less than two.
	insertEntry = `WITH added AS (
INSERT INTO journal (replica, life, seq, written_at, entry) VALUES ($1::text, $2::int8, $3::int8, $4::int8, $5::bytea) RETURNING seq)
UPDATE lanes SET last = $3::int8 WHERE replica = $1::text AND life = $2::int8`

	// touchLane reads a lane's position when a commit of it was not heard of. It
	// waits for the lost transaction; on CockroachDB, where one may not have locked
	// anything yet, its write makes that one fail.
	touchLane = `UPDATE lanes SET fenced = fenced WHERE replica = $1::text AND life = $2::int8 RETURNING last, fenced`

	fenceLanes = `UPDATE lanes SET fenced = true WHERE replica = $1::text AND NOT fenced`
	lastLife   = `SELECT life FROM lanes WHERE replica = $1::text ORDER BY life DESC LIMIT 1`
	insertLane = `INSERT INTO lanes (replica, life, floor, last, fenced, opened_at) VALUES ($1::text, $2::int8, 0, 0, false, $3::int8)`

	readLanes = `SELECT replica, life, floor, last, fenced FROM lanes`

	readEntries = `SELECT seq, written_at, entry FROM journal
WHERE replica = $1::text AND life = $2::int8 AND seq > $3::int8 AND seq <= $4::int8 ORDER BY seq LIMIT $5::int8`
)

// The store's own rows.
const (
	nameCell = `INSERT INTO cell (id, name, cell_uuid) VALUES (0, $1::text, $2::text) ON CONFLICT (id) DO NOTHING`
	readCell = `SELECT name, cell_uuid FROM cell WHERE id = 0`

	reservedTime = `SELECT reserved FROM clock WHERE id = 0`
	reserveTime  = `INSERT INTO clock (id, reserved) VALUES (0, $1::int8)
ON CONFLICT (id) DO UPDATE SET reserved = greatest(clock.reserved, excluded.reserved)`
)
