-- A program from before this step claims without a look at the gate: what still runs of
-- it is ended, as by a newer life of its replica.
UPDATE lanes SET fenced = true WHERE NOT fenced;

-- Where the cell's candidates come from; at most one row, which claims read. An empty
-- pin: none.
CREATE TABLE IF NOT EXISTS gate (
  id int8 PRIMARY KEY,
  state text NOT NULL,
  epoch int8 NOT NULL,
  revision int8 NOT NULL,
  since int8 NOT NULL,
  reason text NOT NULL,
  pin text NOT NULL,
  pin_reason text NOT NULL,
  held_since int8 NOT NULL,
  held_until int8 NOT NULL,
  falls int8 NOT NULL
);

-- What Nova's tables say of a host, and not an agent.
ALTER TABLE hosts ADD COLUMN IF NOT EXISTS imported bool NOT NULL DEFAULT false;

-- A report of its host has had the claim's instance.
ALTER TABLE claims ADD COLUMN IF NOT EXISTS seen bool NOT NULL DEFAULT false;
ALTER TABLE ended_claims ADD COLUMN IF NOT EXISTS seen bool NOT NULL DEFAULT false;
