-- A program from before this step takes a host's empty list for all there is where its
-- agent does not know its instances: what still runs of it is ended, as by a newer life
-- of its replica.
UPDATE lanes SET fenced = true WHERE NOT fenced;

ALTER TABLE hosts ADD COLUMN IF NOT EXISTS instances_unknown bool NOT NULL DEFAULT false;
