CREATE TYPE public.instances0locked_by AS ENUM ('owner', 'admin');
CREATE TABLE public.compute_nodes (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    deleted_at timestamp without time zone,
    deleted integer,
    id integer NOT NULL,
    service_id integer,
    host character varying(255),
    uuid character varying(36),
    vcpus integer NOT NULL,
    memory_mb integer NOT NULL,
    local_gb integer NOT NULL,
    vcpus_used integer NOT NULL,
    memory_mb_used integer NOT NULL,
    local_gb_used integer NOT NULL,
    hypervisor_type text NOT NULL,
    hypervisor_version integer NOT NULL,
    hypervisor_hostname character varying(255),
    free_ram_mb integer,
    free_disk_gb integer,
    current_workload integer,
    running_vms integer,
    cpu_info text NOT NULL,
    disk_available_least integer,
    host_ip inet,
    supported_instances text,
    metrics text,
    pci_stats text,
    extra_resources text,
    stats text,
    numa_topology text,
    ram_allocation_ratio double precision,
    cpu_allocation_ratio double precision,
    disk_allocation_ratio double precision,
    mapped integer
);
CREATE SEQUENCE public.compute_nodes_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.compute_nodes_id_seq OWNED BY public.compute_nodes.id;
CREATE TABLE public.instances (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    deleted_at timestamp without time zone,
    deleted integer,
    id integer NOT NULL,
    user_id character varying(255),
    project_id character varying(255),
    image_ref character varying(255),
    kernel_id character varying(255),
    ramdisk_id character varying(255),
    hostname character varying(255),
    launch_index integer,
    key_name character varying(255),
    key_data text,
    power_state integer,
    vm_state character varying(255),
    task_state character varying(255),
    memory_mb integer,
    vcpus integer,
    root_gb integer,
    ephemeral_gb integer,
    ephemeral_key_uuid character varying(36),
    host character varying(255),
    node character varying(255),
    instance_type_id integer,
    user_data text,
    reservation_id character varying(255),
    launched_at timestamp without time zone,
    terminated_at timestamp without time zone,
    availability_zone character varying(255),
    display_name character varying(255),
    display_description character varying(255),
    launched_on text,
    locked boolean,
    locked_by public.instances0locked_by,
    os_type character varying(255),
    architecture character varying(255),
    vm_mode character varying(255),
    uuid character varying(36) NOT NULL,
    root_device_name character varying(255),
    default_ephemeral_device character varying(255),
    default_swap_device character varying(255),
    config_drive character varying(255),
    access_ip_v4 inet,
    access_ip_v6 inet,
    auto_disk_config boolean,
    progress integer,
    shutdown_terminate boolean,
    disable_terminate boolean,
    cell_name character varying(255),
    cleaned integer,
    hidden boolean
);
CREATE SEQUENCE public.instances_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.instances_id_seq OWNED BY public.instances.id;
CREATE TABLE public.services (
    created_at timestamp without time zone,
    updated_at timestamp without time zone,
    deleted_at timestamp without time zone,
    deleted integer,
    id integer NOT NULL,
    uuid character varying(36),
    host character varying(255),
    "binary" character varying(255),
    topic character varying(255),
    report_count integer NOT NULL,
    disabled boolean,
    disabled_reason character varying(255),
    last_seen_up timestamp without time zone,
    forced_down boolean,
    version integer
);
CREATE SEQUENCE public.services_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.services_id_seq OWNED BY public.services.id;
ALTER TABLE ONLY public.compute_nodes ALTER COLUMN id SET DEFAULT nextval('public.compute_nodes_id_seq'::regclass);
ALTER TABLE ONLY public.instances ALTER COLUMN id SET DEFAULT nextval('public.instances_id_seq'::regclass);
ALTER TABLE ONLY public.services ALTER COLUMN id SET DEFAULT nextval('public.services_id_seq'::regclass);
ALTER TABLE ONLY public.compute_nodes
    ADD CONSTRAINT compute_nodes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.instances
    ADD CONSTRAINT instances_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.services
    ADD CONSTRAINT services_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.compute_nodes
    ADD CONSTRAINT uniq_compute_nodes0host0hypervisor_hostname0deleted UNIQUE (host, hypervisor_hostname, deleted);
ALTER TABLE ONLY public.instances
    ADD CONSTRAINT uniq_instances0uuid UNIQUE (uuid);
ALTER TABLE ONLY public.services
    ADD CONSTRAINT uniq_services0host0binary0deleted UNIQUE (host, "binary", deleted);
ALTER TABLE ONLY public.services
    ADD CONSTRAINT uniq_services0host0topic0deleted UNIQUE (host, topic, deleted);
CREATE UNIQUE INDEX compute_nodes_uuid_idx ON public.compute_nodes USING btree (uuid);
CREATE INDEX instances_deleted_created_at_idx ON public.instances USING btree (deleted, created_at);
CREATE INDEX instances_host_deleted_cleaned_idx ON public.instances USING btree (host, deleted, cleaned);
CREATE INDEX instances_host_node_deleted_idx ON public.instances USING btree (host, node, deleted);
CREATE INDEX instances_project_id_deleted_idx ON public.instances USING btree (project_id, deleted);
CREATE INDEX instances_project_id_idx ON public.instances USING btree (project_id);
CREATE INDEX instances_reservation_id_idx ON public.instances USING btree (reservation_id);
CREATE INDEX instances_task_state_updated_at_idx ON public.instances USING btree (task_state, updated_at);
CREATE INDEX instances_terminated_at_launched_at_idx ON public.instances USING btree (terminated_at, launched_at);
CREATE INDEX instances_updated_at_project_id_idx ON public.instances USING btree (updated_at, project_id);
CREATE INDEX instances_uuid_deleted_idx ON public.instances USING btree (uuid, deleted);
CREATE UNIQUE INDEX services_uuid_idx ON public.services USING btree (uuid);
CREATE UNIQUE INDEX uuid ON public.instances USING btree (uuid);
