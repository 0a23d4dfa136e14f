-- A program from before this step cannot read a journal entry with a namespace: what
-- still runs of it is ended, as by a newer life of its replica.
UPDATE lanes SET fenced = true WHERE NOT fenced;

-- What services say of a host, a row a namespace.
CREATE TABLE IF NOT EXISTS host_namespaces (
  host_uuid text NOT NULL,
  name text NOT NULL,
  facts text NOT NULL,
  generation int8 NOT NULL,
  PRIMARY KEY (host_uuid, name)
);

-- What the host says itself, of the same kind.
ALTER TABLE host_facts ADD COLUMN IF NOT EXISTS namespaces text NOT NULL DEFAULT '';
