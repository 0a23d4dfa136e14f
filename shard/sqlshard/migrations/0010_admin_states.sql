-- A program from before this step claims without a look at what operators want of hosts,
-- and cannot read a journal entry that says so: what still runs of it is ended, as by a
-- newer life of its replica.
UPDATE lanes SET fenced = true WHERE NOT fenced;

-- What an operator wants of the host: {"state", "reason", "by", "since", "until",
-- "generation"}; empty for nothing. In the row that claims lock and read. withheld: new
-- claims are kept away, in words that the planner has statistics of.
ALTER TABLE host_usages ADD COLUMN IF NOT EXISTS admin text NOT NULL DEFAULT '';
ALTER TABLE host_usages ADD COLUMN IF NOT EXISTS withheld bool NOT NULL DEFAULT false;
