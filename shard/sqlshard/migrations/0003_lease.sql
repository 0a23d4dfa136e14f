-- How long a lease a claim's caller asked for, in ns; 0 for none, and for claims from
-- before it was kept.
ALTER TABLE claims ADD COLUMN IF NOT EXISTS ttl int8 NOT NULL DEFAULT 0;
