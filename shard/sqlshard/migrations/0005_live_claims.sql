-- The live claims, with the columns of the ended ones. A claim that ends goes from one
-- table to the other in the transaction that ends it, so what a start reads does not
-- grow with the claims of a day.
CREATE TABLE IF NOT EXISTS claims (
  claim_key {{key}} PRIMARY KEY,
  consumer_uuid {{key}} NOT NULL,
  state text NOT NULL,
  host_uuid {{key}} NOT NULL,
  service_host text NOT NULL,
  allocations text NOT NULL,
  project_id text NOT NULL,
  user_id text NOT NULL,
  request_id text NOT NULL,
  fingerprint bytea NOT NULL,
  decision_id text NOT NULL,
  instance_index int8 NOT NULL,
  answer bytea NOT NULL,
  group_uuid {{key}} NOT NULL,
  group_policy text NOT NULL,
  group_max_per_host int8 NOT NULL,
  group_members text NOT NULL,
  moves text NOT NULL,
  moves_cell text NOT NULL,
  transferred_from {{key}} NOT NULL,
  attempt text NOT NULL,
  adopted bool NOT NULL,
  expires_at int8 NOT NULL,
  created_at int8 NOT NULL,
  updated_at int8 NOT NULL,
  guest bytea NOT NULL DEFAULT '',
  ttl int8 NOT NULL DEFAULT 0
);

-- Read by every claim (is there one of its consumer?) and by FindClaims.
CREATE INDEX IF NOT EXISTS claims_by_consumer ON claims (consumer_uuid);

-- Read by a host's report (which claims are on it?) and by FindClaims.
CREATE INDEX IF NOT EXISTS claims_by_host ON claims (host_uuid);

INSERT INTO claims (claim_key, consumer_uuid, state, host_uuid, service_host, allocations, project_id, user_id,
  request_id, fingerprint, decision_id, instance_index, answer, group_uuid, group_policy, group_max_per_host, group_members,
  moves, moves_cell, transferred_from, attempt, adopted, expires_at, created_at, updated_at, guest, ttl)
SELECT claim_key, consumer_uuid, state, host_uuid, service_host, allocations, project_id, user_id,
  request_id, fingerprint, decision_id, instance_index, answer, group_uuid, group_policy, group_max_per_host, group_members,
  moves, moves_cell, transferred_from, attempt, adopted, expires_at, created_at, updated_at, guest, ttl
FROM ended_claims WHERE state IN ('PENDING', 'CONFIRMED')
ON CONFLICT (claim_key) DO NOTHING;

DELETE FROM ended_claims WHERE state IN ('PENDING', 'CONFIRMED');
