-- The rows of a shard. A statement ends with ";" at the end of a line. Each must be
-- able to run again: CockroachDB commits them one by one.
--
-- {{key}} is text that sorts by bytes. Times are nanoseconds since 1970 UTC of store
-- time, 0 for none. A row is what SQL searches, locks or sorts by, and a body, a message
-- of cellgate.storage.v1. There are no foreign keys: only lanes write, and shard.Decide
-- is the rule of what they write.

-- Which cell the shard is of; one row.
CREATE TABLE IF NOT EXISTS cell (
  id int8 PRIMARY KEY,
  name text NOT NULL,
  cell_uuid text NOT NULL
);

-- Store time was never given out beyond reserved; one row.
CREATE TABLE IF NOT EXISTS clock (
  id int8 PRIMARY KEY,
  reserved int8 NOT NULL
);

-- A lane is one incarnation of one replica. Its journal entries up to floor are trimmed.
-- A newer incarnation of the replica fences the older ones. Transactions of the lane read
-- the row and never write it: they would wait for each other's writes on CockroachDB.
CREATE TABLE IF NOT EXISTS lanes (
  replica {{key}} NOT NULL,
  incarnation int8 NOT NULL,
  floor int8 NOT NULL,
  fenced bool NOT NULL,
  opened_at int8 NOT NULL,
  PRIMARY KEY (replica, incarnation)
);

-- A transaction's rows as they were after it: storage.v1.Entry, packed.
CREATE TABLE IF NOT EXISTS journal (
  replica {{key}} NOT NULL,
  incarnation int8 NOT NULL,
  seq int8 NOT NULL,
  written_at int8 NOT NULL,
  entry bytea NOT NULL,
  PRIMARY KEY (replica, incarnation, seq)
);

-- A root provider with its tree, and the compute that runs on it, if one does (service_host): body is storage.v1.Host, packed. The
-- other columns are what requests ask for (shard.HostQuery); a root without a compute service is disabled. inventories are those of the
-- root provider, {class: [capacity less unaccounted, max_unit, min_unit, step_size]}, and
-- traits its own; the child_ columns have the classes and traits of its other providers.
-- zones are the availability zones that the aggregates name, none when they name no zone.
CREATE TABLE IF NOT EXISTS hosts (
  host_uuid {{key}} PRIMARY KEY,
  service_host text NOT NULL,
  node_name text NOT NULL,
  disabled bool NOT NULL,
  inventories jsonb NOT NULL,
  traits jsonb NOT NULL,
  child_classes jsonb NOT NULL,
  child_traits jsonb NOT NULL,
  aggregates jsonb NOT NULL,
  zones jsonb NOT NULL,
  body bytea NOT NULL
);

-- Facts of other services about a host, a row a namespace. The host's body has those of
-- its agent.
CREATE TABLE IF NOT EXISTS host_namespaces (
  host_uuid text NOT NULL,
  name text NOT NULL,
  facts text NOT NULL,
  generation int8 NOT NULL,
  PRIMARY KEY (host_uuid, name)
);

-- What live claims take from a host, and the row that whoever changes the host or
-- its claims locks. used is {provider: {class: amount}}; generation 0: no claim was ever
-- made. host_generation is that of the row in hosts. admin is the storage.v1.AdminState of
-- the host; empty for none. withheld: admin keeps new claims away, as a column that the
-- planner has statistics of.
CREATE TABLE IF NOT EXISTS host_usages (
  host_uuid {{key}} PRIMARY KEY,
  host_generation int8 NOT NULL,
  generation int8 NOT NULL,
  pending int8 NOT NULL,
  confirmed int8 NOT NULL,
  used text NOT NULL,
  admin bytea NOT NULL DEFAULT '',
  withheld bool NOT NULL DEFAULT false
);

-- The row that whoever makes a claim of a consumer live locks, on PostgreSQL.
CREATE TABLE IF NOT EXISTS consumers (
  consumer_uuid {{key}} PRIMARY KEY,
  project_id text NOT NULL,
  user_id text NOT NULL,
  consumer_type text NOT NULL,
  generation int8 NOT NULL
);

-- The live claims: body is storage.v1.Claim. claim_key is a slot, one digit, and the
-- claim_id: claim_ids ascend with time, and slots spread them over the ranges of
-- CockroachDB. expires_at is the end of a PENDING claim's lease.
CREATE TABLE IF NOT EXISTS claims (
  claim_key {{key}} PRIMARY KEY,
  consumer_uuid {{key}} NOT NULL,
  host_uuid {{key}} NOT NULL,
  project_id text NOT NULL,
  slot {{key}} NOT NULL,
  expires_at int8 NOT NULL,
  body bytea NOT NULL
);

-- Read by every claim (is there one of its consumer?) and by FindClaims.
CREATE INDEX IF NOT EXISTS claims_by_consumer ON claims (consumer_uuid);

-- Read by a host's report (which claims are on it?) and by FindClaims.
CREATE INDEX IF NOT EXISTS claims_by_host ON claims (host_uuid);

-- Read by Due: which leases are over?
CREATE INDEX IF NOT EXISTS claims_by_expiry ON claims (slot, expires_at);

-- The claims that ended, kept for a day. A claim that ends moves here in the transaction
-- that ends it, so what a start reads does not grow with the claims of a day.
CREATE TABLE IF NOT EXISTS ended_claims (
  claim_key {{key}} PRIMARY KEY,
  consumer_uuid {{key}} NOT NULL,
  host_uuid {{key}} NOT NULL,
  project_id text NOT NULL,
  slot {{key}} NOT NULL,
  ended_at int8 NOT NULL,
  body bytea NOT NULL
);

CREATE INDEX IF NOT EXISTS ended_claims_by_consumer ON ended_claims (consumer_uuid);

CREATE INDEX IF NOT EXISTS ended_claims_by_host ON ended_claims (host_uuid);

-- Read by Trim.
CREATE INDEX IF NOT EXISTS ended_claims_by_end ON ended_claims (slot, ended_at);

-- The row that whoever adds a live claim to a hard group locks, on PostgreSQL.
CREATE TABLE IF NOT EXISTS server_groups (
  group_uuid {{key}} PRIMARY KEY,
  policy text NOT NULL,
  generation int8 NOT NULL
);

-- Indexes of some claims only, as tables: CockroachDB of the 20.2 line has no partial
-- indexes. The live claims in server groups:
CREATE TABLE IF NOT EXISTS group_members (
  group_uuid {{key}} NOT NULL,
  claim_key {{key}} NOT NULL,
  PRIMARY KEY (group_uuid, claim_key)
);

-- The live claims that were transferred, by their first consumer.
CREATE TABLE IF NOT EXISTS transfers (
  first_consumer {{key}} NOT NULL,
  claim_key {{key}} NOT NULL,
  PRIMARY KEY (first_consumer, claim_key)
);

-- Affinity groups bound to a host: body is storage.v1.Pin.
CREATE TABLE IF NOT EXISTS pins (
  group_uuid {{key}} PRIMARY KEY,
  body bytea NOT NULL
);

-- Resource classes and traits of the Placement API: the kind, a blank, and the name.
CREATE TABLE IF NOT EXISTS custom_names (
  name {{key}} PRIMARY KEY
);

-- decision_key is a slot and the decision's id, as claim_key; terms a JSON list of what it is found by.
CREATE TABLE IF NOT EXISTS decisions (
  decision_key {{key}} PRIMARY KEY,
  decided_at int8 NOT NULL,
  terms text NOT NULL,
  body_bytes int8 NOT NULL,
  body bytea NOT NULL
);

-- Decisions by term: name is a hash of the term, which can be long. Who reads checks the row.
CREATE TABLE IF NOT EXISTS decision_names (
  name {{key}} NOT NULL,
  decision_key {{key}} NOT NULL,
  PRIMARY KEY (name, decision_key)
);

-- Who speaks for the cell's hosts: body is storage.v1.Gate. At most one row, which states of
-- hosts read.
CREATE TABLE IF NOT EXISTS gate (
  id int8 PRIMARY KEY,
  body bytea NOT NULL
);
