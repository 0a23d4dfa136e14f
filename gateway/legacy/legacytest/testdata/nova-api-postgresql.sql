CREATE TABLE public.cell_mappings (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id serial PRIMARY KEY,
    uuid character varying(36) NOT NULL,
    name character varying(255),
    transport_url text,
    database_connection text,
    disabled boolean,
    CONSTRAINT uniq_cell_mappings0uuid UNIQUE (uuid)
);
CREATE INDEX uuid_idx ON public.cell_mappings USING btree (uuid);
CREATE TABLE public.host_mappings (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id serial PRIMARY KEY,
    cell_id integer NOT NULL REFERENCES public.cell_mappings (id),
    host character varying(255) NOT NULL,
    CONSTRAINT uniq_host_mappings0host UNIQUE (host)
);
CREATE INDEX host_idx ON public.host_mappings USING btree (host);
CREATE TABLE public.aggregates (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id serial PRIMARY KEY,
    uuid character varying(36),
    name character varying(255),
    CONSTRAINT uniq_aggregate0name UNIQUE (name)
);
CREATE INDEX aggregate_uuid_idx ON public.aggregates USING btree (uuid);
CREATE TABLE public.aggregate_hosts (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id serial PRIMARY KEY,
    host character varying(255),
    aggregate_id integer NOT NULL REFERENCES public.aggregates (id),
    CONSTRAINT uniq_aggregate_hosts0host0aggregate_id UNIQUE (host, aggregate_id)
);
CREATE TABLE public.aggregate_metadata (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    id serial PRIMARY KEY,
    aggregate_id integer NOT NULL REFERENCES public.aggregates (id),
    key character varying(255) NOT NULL,
    value character varying(255) NOT NULL,
    CONSTRAINT uniq_aggregate_metadata0aggregate_id0key UNIQUE (aggregate_id, key)
);
CREATE INDEX aggregate_metadata_key_idx ON public.aggregate_metadata USING btree (key);
