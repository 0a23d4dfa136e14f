-- What a claim keeps of its instance for later requests, as shard/rowcodec writes it;
-- empty for nothing.
ALTER TABLE claims ADD COLUMN IF NOT EXISTS guest bytea NOT NULL DEFAULT '';
