-- A program from before this step confirms claims without a look at what their hosts
-- said, and does not know REJECTED: what still runs of it is ended, as by a newer life of
-- its replica.
UPDATE lanes SET fenced = true WHERE NOT fenced;

-- What a claim's host said of it: {"outcome", "reason", "detail", "boot_id", "version",
-- "at"}; empty for nothing.
ALTER TABLE claims ADD COLUMN IF NOT EXISTS verdict text NOT NULL DEFAULT '';
ALTER TABLE ended_claims ADD COLUMN IF NOT EXISTS verdict text NOT NULL DEFAULT '';
