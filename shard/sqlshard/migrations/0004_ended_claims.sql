-- A program from before this step looks for ended claims among the live ones: what
-- still runs of it is ended, as by a newer life of its replica.
UPDATE lanes SET fenced = true WHERE NOT fenced;

-- The claims that ended, kept for a day. All claims were in this table, under the name
-- that the next step gives to the live ones: there are few of those, and they are moved.
ALTER INDEX IF EXISTS claims_pkey RENAME TO ended_claims_pkey;
ALTER INDEX IF EXISTS claims_by_consumer RENAME TO ended_claims_by_consumer;
ALTER INDEX IF EXISTS claims_by_host RENAME TO ended_claims_by_host;
ALTER TABLE IF EXISTS claims RENAME TO ended_claims;

-- Their list by their end has another name, too: a program from before would look in
-- vain for what is in it.
ALTER INDEX IF EXISTS tombstones_pkey RENAME TO claim_ends_pkey;
ALTER TABLE IF EXISTS tombstones RENAME TO claim_ends;
