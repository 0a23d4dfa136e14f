package config

import "time"

// Config is a whole file. A process reads its own section, Log and Telemetry; keys of the
// other sections are still checked for being known.
type Config struct {
	Log       Log       `yaml:"log" help:"what every process writes to its standard error"`
	Telemetry Telemetry `yaml:"telemetry" help:"what every process traces, and where its spans go"`
	Gateway   Gateway   `yaml:"gateway" help:"cellgate gateway"`
	Cell      Cell      `yaml:"cell" help:"cellgate cell: one scheduler replica"`
	Agent     Agent     `yaml:"agent" help:"cellgate agent: the agent of this machine, or those of a simulated fleet"`
	Dev       Dev       `yaml:"dev" help:"cellgate dev: everything in one process"`
}

// Log configures the process's log on standard error.
type Log struct {
	Level  string `yaml:"level" must:"debug,info,warn,error" flag:"log-level" help:"debug, info, warn or error"`
	Format string `yaml:"format" must:"text,json" flag:"log-format" help:"text or json"`
}

// Telemetry configures which requests a process traces, and where its spans go.
type Telemetry struct {
	Traces   string  `yaml:"traces" must:"none,otlp,file" flag:"traces" help:"where spans of traced requests go: none, otlp or file"`
	Endpoint string  `yaml:"endpoint" flag:"traces-endpoint" help:"URL of an OTLP collector (gRPC); http:// is plaintext, https:// TLS"`
	File     string  `yaml:"file" flag:"traces-file" help:"file that takes a line of JSON for each span"`
	Ratio    float64 `yaml:"ratio" range:"0..1" flag:"traces-ratio" help:"part of the requests without a trace that is traced all the same, 0 to 1"`
	Service  string  `yaml:"service" flag:"traces-service" help:"name of the process in traces; empty means cellgate-COMMAND"`
}

// Gateway configures `cellgate gateway`.
type Gateway struct {
	HTTP     string        `yaml:"http" help:"address of the REST API"`
	GRPC     string        `yaml:"grpc" help:"address of the gRPC API"`
	Insecure bool          `yaml:"insecure" help:"allow addresses that are not loopback without TLS and authentication"`
	TLS      ServerTLS     `yaml:"tls"`
	Ingress  Ingress       `yaml:"ingress"`
	CellTLS  ClientTLS     `yaml:"cell_tls"`
	Cells    []GatewayCell `yaml:"cells" flag:"cell" help:"a cell, as name=[uuid@]host:port[,host:port]; again for each cell"`
	Legacy   []LegacyCell  `yaml:"legacy" help:"a cell that is under upgrade from Nova's own tables, as cell=URL of its database; again for each; the rest in the file"`
	// ProposeBudget is how long a cell may take to propose, ClaimBudget to claim.
	ProposeBudget time.Duration `yaml:"propose_budget" range:">0s.." help:"how long a cell may take to propose hosts"`
	ClaimBudget   time.Duration `yaml:"claim_budget" range:">0s.." help:"how long a cell may take to claim"`
	MaxDeadline   time.Duration `yaml:"max_deadline" range:">0s.." help:"the longest a request may take"`
	Breaker       Breaker       `yaml:"breaker"`
	// Filters and Weighers, empty: the defaults, in Nova's order and with its multipliers.
	Filters                 []string      `yaml:"filters" nova:"[filter_scheduler] enabled_filters" help:"filters in order, separated by commas; empty means the default ones. Those that stand for Placement and for server groups always run, named or not"`
	Weighers                []Weigher     `yaml:"weighers" nova:"[filter_scheduler] weight_classes" flag:"weigher" help:"a weigher, as name=multiplier; again for each; empty means all"`
	DefaultAvailabilityZone string        `yaml:"default_availability_zone" nova:"[DEFAULT] default_availability_zone" help:"zone of hosts that are in none"`
	PCIAliases              []PCIAlias    `yaml:"pci_alias" nova:"[pci] alias" flag:"pci-alias" help:"a name for PCI devices, as name=gpu,vendor_id=10de,product_id=1db6,device_type=type-PCI,numa_policy=required; again for each"`
	NovaConf                []string      `yaml:"nova_conf" help:"nova.conf files to take filters, weighers and their options from, later ones first; keys here must not say otherwise"`
	Nova                    NovaOptions   `yaml:"nova"`
	Bus                     Bus           `yaml:"bus"`
	Placement               Placement     `yaml:"placement"`
	AvoidCollisions         bool          `yaml:"avoid_collisions" help:"while claims are refused because several requests want the same host, choose among the first few"`
	HintExpressions         bool          `yaml:"hint_expressions" help:"scheduler hints may bring expressions (cellgate:filter, cellgate:weigh), which the owners of servers write"`
	FilterExpression        string        `yaml:"filter_expression" help:"expression in CEL that must be true of the hosts of every request (docs/explanation/facts.md); empty for none"`
	WeighExpression         string        `yaml:"weigh_expression" help:"expression in CEL that gives the hosts of every request a raw weight; empty for none"`
	WeighMultiplier         float64       `yaml:"weigh_multiplier" range:"-1000000..1000000" help:"how many times weigh_expression counts; below 0 the least weight is the best"`
	DecisionQueue           int           `yaml:"decision_queue" range:"1.." help:"decisions waiting to be written into their cells; more are dropped"`
	MaxInFlight             int           `yaml:"max_in_flight" range:"1.." help:"the most calls of a kind that wait or run at once; the limits in force adapt below it"`
	DrainDelay              time.Duration `yaml:"drain_delay" range:"0s..1m" help:"how long to go on serving, not ready, after being asked to stop"`
}

// Bus is Nova's message bus, on which a gateway serves select_destinations: docs/how-to/nova-bus.md.
type Bus struct {
	Enabled       bool          `yaml:"enabled" help:"serve the topic scheduler of Nova's message bus (docs/how-to/nova-bus.md)"`
	TransportURL  string        `yaml:"transport_url" nova:"[DEFAULT] transport_url" secret:"url" help:"Nova's option, of the API's message bus: rabbit://USER:PASSWORD@HOST:PORT/VHOST; several addresses separated by commas"`
	Exchange      string        `yaml:"control_exchange" must:"set" nova:"[DEFAULT] control_exchange" help:"Nova's option"`
	Host          string        `yaml:"host" help:"this gateway's name on the bus, whose own queue is scheduler.HOST; empty means the machine's name"`
	DurableQueues bool          `yaml:"durable_queues" nova:"[oslo_messaging_rabbit] amqp_durable_queues" help:"Nova's [oslo_messaging_rabbit] amqp_durable_queues; this one and those up to transient_queues_ttl must be what Nova's services have"`
	AutoDelete    bool          `yaml:"auto_delete" nova:"[oslo_messaging_rabbit] amqp_auto_delete" help:"Nova's amqp_auto_delete"`
	QuorumQueue   bool          `yaml:"quorum_queue" nova:"[oslo_messaging_rabbit] rabbit_quorum_queue" help:"Nova's rabbit_quorum_queue"`
	DeliveryLimit int           `yaml:"quorum_delivery_limit" nova:"[oslo_messaging_rabbit] rabbit_quorum_delivery_limit" range:"0.." help:"Nova's rabbit_quorum_delivery_limit; 0 for none"`
	MemoryLength  int           `yaml:"quorum_max_memory_length" nova:"[oslo_messaging_rabbit] rabbit_quroum_max_memory_length" range:"0.." help:"Nova's rabbit_quroum_max_memory_length; 0 for none"`
	MemoryBytes   int           `yaml:"quorum_max_memory_bytes" nova:"[oslo_messaging_rabbit] rabbit_quroum_max_memory_bytes" range:"0.." help:"Nova's rabbit_quroum_max_memory_bytes; 0 for none"`
	TransientTTL  time.Duration `yaml:"transient_queues_ttl" nova:"[oslo_messaging_rabbit] rabbit_transient_queues_ttl" range:"1s.." help:"Nova's rabbit_transient_queues_ttl"`
	Heartbeat     time.Duration `yaml:"heartbeat" nova:"[oslo_messaging_rabbit] heartbeat_timeout_threshold" range:"1s..1h" help:"after how long without a sign of life a broker counts as gone; Nova's heartbeat_timeout_threshold"`
	SSL           bool          `yaml:"ssl" nova:"[oslo_messaging_rabbit] ssl" help:"reach the brokers by TLS; ?ssl=1 in transport_url does too"`
	CA            string        `yaml:"ca" nova:"[oslo_messaging_rabbit] ssl_ca_file" reload:"file" help:"PEM file of the CAs of the brokers, or system; empty: their certificates are not verified, as Nova does"`
	VerifyHost    bool          `yaml:"verify_host" nova:"[oslo_messaging_rabbit] ssl_enforce_hostname_verification" help:"the brokers' certificates must have the names of transport_url; needs ca"`
	Cert          string        `yaml:"cert" nova:"[oslo_messaging_rabbit] ssl_cert_file" reload:"file" help:"PEM file of this client's certificate"`
	Key           string        `yaml:"key" nova:"[oslo_messaging_rabbit] ssl_key_file" reload:"file" help:"PEM file of its key"`
	Prefetch      int           `yaml:"prefetch" range:"1..10000" help:"requests of the bus that are worked on at once; the rest waits in the queue"`
	Timeout       time.Duration `yaml:"timeout" range:"1s..30m" help:"how long a request is repeated while cells are out of reach; then the conductor gets an error"`
	ClaimTTL      time.Duration `yaml:"claim_ttl" range:"1s..1h" help:"lease of the claims: how long a build may take until its host reports the instance"`
	MaxAttempts   int           `yaml:"max_attempts" nova:"[scheduler] max_attempts" range:"1..33" help:"Nova's [scheduler] max_attempts: an answer has one alternate fewer"`
	Allocations   bool          `yaml:"write_allocations" help:"write the allocations of answers to Placement, as nova-scheduler does; the section placement of nova_conf says where that is"`
	Reasons       string        `yaml:"reasons" must:"none,filters,counts" help:"what NoValidHost tells users: none, filters or counts"`
	Notifications string        `yaml:"notification_driver" must:",messaging,messagingv2" nova:"[oslo_messaging_notifications] driver" help:"send scheduler.select_destinations.start and .end, unversioned: messagingv2, or messaging for no envelope; empty: none are sent. Nova's [oslo_messaging_notifications] driver"`
	NotifyTopics  []string      `yaml:"notification_topics" nova:"[oslo_messaging_notifications] topics" help:"Nova's [oslo_messaging_notifications] topics: each notification goes to the queue TOPIC.info of each"`
	NotifyURL     string        `yaml:"notification_url" nova:"[oslo_messaging_notifications] transport_url" secret:"url" help:"their broker, as transport_url; empty: that of transport_url. Nova's [oslo_messaging_notifications] transport_url"`
}

// Placement is the Placement API of a gateway: docs/adr/0029.
type Placement struct {
	Enabled       bool     `yaml:"enabled" help:"serve the Placement API from the cells' shards (docs/adr/0029)"`
	Listen        string   `yaml:"listen" help:"address of the Placement API; with TLS as the REST API"`
	DefaultCell   string   `yaml:"default_cell" help:"cell of new root providers whose path names none (/cells/NAME); empty: they are refused where there are several cells"`
	AcceptRepeats bool     `yaml:"accept_repeats" help:"answer 204 to a write of allocations over an old consumer generation when the consumers hold just what it asks for: a repeated write whose first answer was lost (docs/how-to/placement-api.md); Placement answers 409"`
	TrustLoopback bool     `yaml:"trust_loopback" help:"take the token admin from loopback addresses, as Placement's auth_strategy noauth2"`
	Keystone      Keystone `yaml:"keystone"`
}

// Keystone is the account that validates tokens.
type Keystone struct {
	AuthURL       string        `yaml:"auth_url" help:"Keystone's v3 endpoint; empty: only trust_loopback admits anybody"`
	Username      string        `yaml:"username" help:"user that validates tokens, as [keystone_authtoken] of placement.conf"`
	PasswordFile  string        `yaml:"password_file" help:"file with its password"`
	UserDomain    string        `yaml:"user_domain" help:"domain of the user"`
	ProjectName   string        `yaml:"project_name" help:"its project"`
	ProjectDomain string        `yaml:"project_domain" help:"domain of the project"`
	CacheFor      time.Duration `yaml:"cache_for" range:"0s..1h" help:"how long a validated token is taken without asking again"`
}

// PCIAlias is a name by which flavors request PCI devices (Nova's [pci] alias). Several entries with
// one name match devices of any of them.
type PCIAlias struct {
	Name           string `yaml:"name" help:"name that flavors ask by; several entries of one name mean devices of any of them"`
	VendorID       string `yaml:"vendor_id" help:"vendor of the devices, four hexadecimal digits"`
	ProductID      string `yaml:"product_id" help:"product of the devices, four hexadecimal digits"`
	DeviceType     string `yaml:"device_type" help:"type-PCI, type-PF, type-VF or vdpa"`
	NUMAPolicy     string `yaml:"numa_policy" help:"required, preferred, legacy or socket"`
	CapabilityType string `yaml:"capability_type" help:"only pci, as in Nova's alias"`
	LiveMigratable string `yaml:"live_migratable" help:"yes or no, for devices of that kind only; empty for either"`
	ResourceClass  string `yaml:"resource_class" help:"resource class of the devices' providers, with nova.pci_in_placement; empty means CUSTOM_PCI_VENDOR_PRODUCT"`
	Traits         string `yaml:"traits" help:"traits of the devices' providers, with nova.pci_in_placement, separated by commas, or by + on the command line"`
}

// NovaOptions are the options of filters and weighers, with Nova's names, meanings and defaults:
// [filter_scheduler], those of [metrics] with the prefix metrics_, and those of request filters
// (pre-filters) of [scheduler].
type NovaOptions struct {
	HostSubsetSize          int      `yaml:"host_subset_size" nova:"[filter_scheduler] host_subset_size" range:"1..10000" help:"choose one of so many best hosts"`
	MaxIOOpsPerHost         int      `yaml:"max_io_ops_per_host" nova:"[filter_scheduler] max_io_ops_per_host" range:"0.." help:"of IoOpsFilter and AggregateIoOpsFilter"`
	MaxInstancesPerHost     int      `yaml:"max_instances_per_host" nova:"[filter_scheduler] max_instances_per_host" range:"1.." help:"of NumInstancesFilter and AggregateNumInstancesFilter"`
	IsolatedHosts           []string `yaml:"isolated_hosts" nova:"[filter_scheduler] isolated_hosts" help:"service hosts, of IsolatedHostsFilter"`
	IsolatedImages          []string `yaml:"isolated_images" nova:"[filter_scheduler] isolated_images" help:"image ids, of IsolatedHostsFilter"`
	RestrictIsolated        bool     `yaml:"restrict_isolated_hosts_to_isolated_images" nova:"[filter_scheduler] restrict_isolated_hosts_to_isolated_images" help:"isolated hosts take isolated images only"`
	DefaultArchitecture     string   `yaml:"image_properties_default_architecture" nova:"[filter_scheduler] image_properties_default_architecture" help:"of images that name none, for ImagePropertiesFilter"`
	ImageIsolationNamespace string   `yaml:"aggregate_image_properties_isolation_namespace" nova:"[filter_scheduler] aggregate_image_properties_isolation_namespace" help:"of AggregateImagePropertiesIsolation; empty means every key"`
	ImageIsolationSeparator string   `yaml:"aggregate_image_properties_isolation_separator" nova:"[filter_scheduler] aggregate_image_properties_isolation_separator" help:"between that namespace and a property"`
	ImagePropertySetting    []string `yaml:"image_props_weight_setting" nova:"[filter_scheduler] image_props_weight_setting" help:"of ImagePropertiesWeigher, as property=factor, separated by commas"`
	MetricsSetting          []string `yaml:"metrics_weight_setting" nova:"[metrics] weight_setting" help:"of MetricsWeigher and MetricsFilter, as metric=factor, separated by commas"`
	MetricsRequired         bool     `yaml:"metrics_required" nova:"[metrics] required" help:"a host without a weighed metric is an error"`
	MetricsUnavailable      float64  `yaml:"metrics_weight_of_unavailable" nova:"[metrics] weight_of_unavailable" range:"-1e+100..1e+100" help:"weight of a host without a weighed metric, when it is no error"`
	LimitTenants            bool     `yaml:"limit_tenants_to_placement_aggregate" nova:"[scheduler] limit_tenants_to_placement_aggregate" help:"projects that aggregates are named for are placed in those"`
	TenantsRequireAggregate bool     `yaml:"placement_aggregate_required_for_tenants" nova:"[scheduler] placement_aggregate_required_for_tenants" help:"with limit_tenants_to_placement_aggregate: no host for a project without an aggregate"`
	ImageTypeSupport        bool     `yaml:"query_placement_for_image_type_support" nova:"[scheduler] query_placement_for_image_type_support" help:"hosts must support the image's disk format"`
	IsolateAggregates       bool     `yaml:"enable_isolated_aggregate_filtering" nova:"[scheduler] enable_isolated_aggregate_filtering" help:"aggregates that require traits take no request without them"`
	ImageMetadata           bool     `yaml:"image_metadata_prefilter" nova:"[scheduler] image_metadata_prefilter" help:"hosts must support the models that the image names"`
	RoutedNetworks          bool     `yaml:"query_placement_for_routed_network_aggregates" nova:"[scheduler] query_placement_for_routed_network_aggregates" help:"hosts must reach the segments of the ports and networks that a request names: Neutron is asked by [neutron] of nova_conf; without an account there such requests are refused"`
	PCIInPlacement          bool     `yaml:"pci_in_placement" nova:"[filter_scheduler] pci_in_placement" help:"PCI devices that an alias asks for are child providers in Placement, which computes report with [pci] report_in_placement"`
	NoPCPUFallback          bool     `yaml:"disable_fallback_pcpu_query" nova:"[workarounds] disable_fallback_pcpu_query" help:"dedicated CPUs are asked of hosts that report PCPU only, not of others as VCPU"`
	ExactTenantKey          bool     `yaml:"exact_tenant_key" help:"AggregateMultiTenancyIsolation reads filter_tenant_id only, as Nova did before 2024.2, not every key that begins so"`
	Strict                  bool     `yaml:"strict_nova" help:"a host whose data Nova could not read fails the request, as in Nova, instead of being left out"`
	Release                 string   `yaml:"nova_release" flag:"nova-release" help:"release of the Nova that is replaced, as zed or 2025.1: its default weighers and request filters, and how it reads nova.conf; empty means the newest known"`
}

// ServerTLS says how a process proves its identity to its callers, and how they prove theirs. All
// values are paths of files; docs/reference/security.md.
type ServerTLS struct {
	Cert               string `yaml:"cert" reload:"file" help:"PEM file of this server's certificate, with its intermediates; turns TLS on"`
	Key                string `yaml:"key" reload:"file" help:"PEM file of its key; others must not be able to read it"`
	ClientCA           string `yaml:"client_ca" reload:"file" help:"PEM file of the CAs of callers' certificates, which then must have one"`
	ClientCertOptional bool   `yaml:"client_cert_optional" help:"callers without a certificate may give a token instead"`
	Tokens             string `yaml:"tokens" reload:"file" help:"file of the tokens that are known, hashed; cellgate token new makes them"`
}

// Ingress bounds the resources that callers make a process hold.
type Ingress struct {
	MiB         int `yaml:"max_mib" range:"5.." help:"MiB of requests above 64 KiB that are received or decoded at once, at most"`
	CallerMiB   int `yaml:"max_caller_mib" range:"5.." help:"MiB of those of one caller: a client certificate, else an address"`
	Connections int `yaml:"max_connections" range:"64.." help:"open connections, at most; of one address a sixteenth of them, 64 at least"`
}

// ClientTLS says how a process verifies the servers that it calls, and how it proves its identity to
// them.
type ClientTLS struct {
	CA         string `yaml:"ca" reload:"file" help:"PEM file of the CAs of the servers that are called, or system; turns TLS on"`
	ServerName string `yaml:"server_name" help:"name in the servers' certificates, when it is not their address"`
	Cert       string `yaml:"cert" reload:"file" help:"PEM file of this caller's certificate"`
	Key        string `yaml:"key" reload:"file" help:"PEM file of its key; others must not be able to read it"`
	TokenFile  string `yaml:"token_file" reload:"file" help:"file with the token to show; others must not be able to read it"`
}

// Breaker says when a gateway stops calling a cell's replica, and when it tries again.
type Breaker struct {
	Failures    int           `yaml:"failures" range:"1.." help:"calls that fail in a row before a replica is left alone; one that cannot be reached is at once"`
	OpenFor     time.Duration `yaml:"open_for" range:">0s.." help:"how long a replica is left alone before it is probed"`
	ProbeEvery  time.Duration `yaml:"probe_every" range:">0s.." help:"how often a replica that is in doubt is probed"`
	ProbeBudget time.Duration `yaml:"probe_budget" range:">0s.." help:"how long a replica may take to answer a probe"`
}

// GatewayCell is one cell that a gateway calls. An empty UUID is learned from the cell.
type GatewayCell struct {
	Name     string   `yaml:"name" must:"set" help:"the cell's name"`
	UUID     string   `yaml:"uuid" help:"the cell's uuid, as in cell_mappings; empty means the one that the cell itself reports"`
	Replicas []string `yaml:"replicas" help:"addresses of the cell's replicas"`
	Disabled bool     `yaml:"disabled" help:"the cell gets no new instances"`
}

// LegacyCell is one of the gateway's cells that is under upgrade from Nova's own tables:
// docs/how-to/upgrade.md.
type LegacyCell struct {
	// Cell is the name of one of cells.
	Cell string `yaml:"cell" must:"set" help:"name of one of gateway.cells"`
	// Database is the URL of the cell's database, mysql:// or postgres://. API is that of the API
	// database, for aggregates and host mappings. Passwords are in files, which are read for each new
	// connection. A CA is a PEM file, or system; it makes a mysql:// connection use TLS. A postgres://
	// URL has sslmode instead.
	Database     string `yaml:"database" help:"URL of the cell's database, mysql:// or postgres://, without a password"`
	PasswordFile string `yaml:"password_file" reload:"file" help:"file with its password"`
	CA           string `yaml:"ca" help:"PEM file of the CAs of a mysql:// server, or system; turns TLS on. A postgres:// URL says so by sslmode"`
	API          string `yaml:"api" help:"URL of the API database, for aggregates and host mappings; empty: they are not read"`
	APIPassword  string `yaml:"api_password_file" reload:"file" help:"file with its password"`
	APICA        string `yaml:"api_ca" help:"as ca, for the API database"`
	// Insecure allows remote databases without TLS.
	Insecure bool `yaml:"insecure" help:"allow databases on other machines without TLS"`
	// Only: the cell has no scheduler yet. The gateway runs one for it, with a shard in memory, so that
	// other gateways do not see its choices.
	Only bool `yaml:"legacy_only" help:"the cell has no scheduler yet: the gateway runs one for it, with a shard in memory"`
	// RequiredVersion is the least version of the nova-compute services that run beside a new agent.
	RequiredVersion int `yaml:"required_version" range:"0..2147483647" help:"least version of nova-compute services that the gate needs; 0: the gate never opens"`
	// Refresh is how often the tables are read; 0 means 2 s.
	Refresh time.Duration `yaml:"refresh" range:"0|100ms..5s" help:"how often the tables are read; 0 means 2s"`
	// ServiceDownTime is Nova's option; 0 means that of the gateway's nova.conf, else 60 s.
	ServiceDownTime time.Duration `yaml:"service_down_time" range:"0s.." help:"Nova's option, at least five times refresh; 0 means that of gateway.nova_conf, else 60s"`
	// Nova's options for rows without a ratio; 0 means not set.
	CPURatio         float64 `yaml:"cpu_allocation_ratio" range:"0.." help:"Nova's option, for rows without a ratio; 0 means not set"`
	RAMRatio         float64 `yaml:"ram_allocation_ratio" range:"0.." help:"Nova's option, for rows without a ratio; 0 means not set"`
	DiskRatio        float64 `yaml:"disk_allocation_ratio" range:"0.." help:"Nova's option, for rows without a ratio; 0 means not set"`
	InitialCPURatio  float64 `yaml:"initial_cpu_allocation_ratio" range:"0.." help:"Nova's option, for rows without a ratio; 0 means not set"`
	InitialRAMRatio  float64 `yaml:"initial_ram_allocation_ratio" range:"0.." help:"Nova's option, for rows without a ratio; 0 means not set"`
	InitialDiskRatio float64 `yaml:"initial_disk_allocation_ratio" range:"0.." help:"Nova's option, for rows without a ratio; 0 means not set"`
}

// Weigher names a weigher and its multiplier; a negative multiplier reverses the order.
type Weigher struct {
	Name       string  `yaml:"name" must:"set" help:"name of the weigher, as in Nova"`
	Multiplier float64 `yaml:"multiplier" range:"any" help:"how many times its weight counts; below 0 the least weight is the best"`
}

// Cell configures `cellgate cell`: one scheduler replica, with an embedded shard or one
// in a database.
type Cell struct {
	Name     string    `yaml:"name" must:"set" help:"the cell's name"`
	UUID     string    `yaml:"uuid" must:"uuid" help:"the cell's uuid"`
	Replica  string    `yaml:"replica" help:"name of this replica; empty means the cell's name"`
	GRPC     string    `yaml:"grpc" help:"address for gateways and agents"`
	Insecure bool      `yaml:"insecure" help:"allow addresses that are not loopback without TLS and authentication"`
	TLS      ServerTLS `yaml:"tls"`
	Ingress  Ingress   `yaml:"ingress"`
	Data     string    `yaml:"data" help:"directory of the embedded shard; empty with store"`
	Store    string    `yaml:"store" help:"database of the shard, postgres:// or cockroach://; empty for the embedded one"`
	// StorePasswordFile is read for each new connection.
	StorePasswordFile string        `yaml:"store_password_file" reload:"file" help:"file with the password of the database"`
	StoreMigrate      bool          `yaml:"store_migrate" help:"make the database's tables, or bring them up to date, at the start"`
	ServiceDownTime   time.Duration `yaml:"service_down_time" range:">0s.." help:"a host without a heartbeat for so long counts as down"`
	HeartbeatEvery    time.Duration `yaml:"heartbeat_every" range:"100ms..1h" help:"how often agents send heartbeats"`
	SnapshotTTL       time.Duration `yaml:"snapshot_ttl" range:">0s.." help:"how long a version of the host table can be asked for again"`
	LeaseScan         time.Duration `yaml:"lease_scan" range:"10ms..1m" help:"how often expired leases are looked for"`
	MaxBatch          int           `yaml:"max_batch" range:"2.." help:"operations committed together, at most"`
	MaxQueue          int           `yaml:"max_queue" range:"256.." help:"operations waiting to be committed, at most; 256 or more"`
	MaxHosts          int           `yaml:"max_hosts" range:"1.." help:"hosts of the cell, at most"`
	MaxHostsMiB       int           `yaml:"max_hosts_mib" unit:"MiB" range:"1.." help:"MiB that the rows of the cell's hosts take, at most"`
	MaxAgentHosts     int           `yaml:"max_agent_hosts" range:"1.." help:"hosts that one agent's credential may register, at most; it may have four calls for each under way"`
	MaxAgentHostsMiB  int           `yaml:"max_agent_hosts_mib" unit:"MiB" range:"1.." help:"MiB that the rows of those hosts take, at most"`
	DecisionsKeep     time.Duration `yaml:"decisions_keep" range:">0s.." help:"how long decisions are kept"`
	MaxDecisions      int           `yaml:"max_decisions" range:"1.." help:"decisions kept, at most"`
	DecisionMiB       int           `yaml:"max_decision_mib" unit:"MiB" range:"16.." help:"MiB that the decisions kept take, at most: with an embedded shard before compression"`
	JournalMiB        int           `yaml:"max_journal_mib" unit:"MiB" range:"16.." help:"MiB that the journal of the embedded shard takes, at most; older entries are dropped"`
	EndedMiB          int           `yaml:"max_ended_mib" unit:"MiB" range:"16.." help:"MiB that ended claims of the embedded shard take, at most; older ones are dropped, but none within ten minutes"`
	MaxClockJump      time.Duration `yaml:"max_clock_jump" range:">0s.." help:"how long an embedded shard may have stood still: a clock that is later at the start is refused as wrong"`
	GateSettle        time.Duration `yaml:"gate_settle" range:"100ms..24h" help:"how long all services and hosts must be new before the gate moves on; doubles with each fall-back"`
	GateClasses       []string      `yaml:"gate_classes" help:"resource classes that each host's inventory must have before the gate moves on"`
	GateAgentVersion  int           `yaml:"gate_agent_version" range:"1.." help:"least version of the hosts' agents"`
	VerifyMode        string        `yaml:"verify_mode" must:"async,sync,shadow" help:"what hosts' verdicts on claims do: async, a rejected claim cannot be confirmed; sync, the next candidate is taken; shadow, nothing"`
	VerifyWait        time.Duration `yaml:"verify_wait" range:"1ms..200ms" help:"how long sync waits for a verdict, 200ms at most"`
	ReconcileInterval time.Duration `yaml:"reconcile_interval" range:"100ms..1h" help:"how often the shard, the table and the hosts' reports are compared"`
	ReconcileGrace    time.Duration `yaml:"reconcile_grace" range:">0s.." help:"how long they must disagree before that is a finding"`
	ReconcileRelease  time.Duration `yaml:"reconcile_release" range:">0s.." help:"how long an instance must be missing from its host's reports before its claim is released"`
	ReconcileRepair   bool          `yaml:"reconcile_repair" help:"put right what is safe; without it findings are only reported"`
	DrainDelay        time.Duration `yaml:"drain_delay" range:"0s..1m" help:"how long to go on serving, not ready, after being asked to stop"`
	Metrics           string        `yaml:"metrics" help:"address of /metrics and /healthz over HTTP; empty for none"`
}

// Agent configures `cellgate agent`: the agent of this machine, or those of a simulated
// fleet of one cell.
type Agent struct {
	Cell     string    `yaml:"cell" help:"name of the cell the host belongs to"`
	Replicas []string  `yaml:"replicas" flag:"replica" help:"addresses of the cell's replicas, separated by commas"`
	Print    bool      `yaml:"print" help:"print what would be reported of this machine, and end"`
	Hosts    int       `yaml:"hosts" range:"0.." help:"hosts to simulate; 0 reports this machine"`
	Seed     uint64    `yaml:"seed" range:"any" help:"decides what simulated hosts look like"`
	Verify   bool      `yaml:"verify" help:"judge the claims that the cell makes on the host"`
	TLS      ClientTLS `yaml:"tls"`
	Socket   string    `yaml:"socket" help:"path of a unix socket at which operations on this host take up claims; empty for none"`
	Metrics  string    `yaml:"metrics" help:"address of /metrics and /healthz over HTTP; empty for none"`
	Insecure bool      `yaml:"insecure" help:"allow an address of metrics that is not loopback"`
	Host     Host      `yaml:"host" reload:"SIGHUP"`
}

// Dev configures `cellgate dev`: everything in one process.
type Dev struct {
	Cells        int    `yaml:"cells" range:"1.." help:"cells to run"`
	Hosts        int    `yaml:"hosts" range:"1.." help:"hosts to simulate in each cell"`
	Seed         uint64 `yaml:"seed" range:"any" help:"decides what the hosts look like"`
	Data         string `yaml:"data" help:"directory of the embedded shards, one folder a cell; empty with store"`
	Store        string `yaml:"store" help:"server that has the shards, postgres:// or cockroach://, one database a cell, made when it is not there"`
	HTTP         string `yaml:"http" help:"address of the REST API"`
	GRPC         string `yaml:"grpc" help:"address of the gRPC API"`
	CellBasePort int    `yaml:"cell_base_port" range:"0..65535" help:"port of the first cell; the others follow; 0 for any free ones"`
	Insecure     bool   `yaml:"insecure" help:"allow addresses that are not loopback: dev has no TLS and no authentication"`
	// NovaConf are the gateway's nova.conf files.
	NovaConf    []string `yaml:"nova_conf" help:"nova.conf files for the gateway: filters, weighers and their options"`
	NovaRelease string   `yaml:"nova_release" help:"release of the Nova that wrote them, as zed or 2025.1; empty means the newest known"`
	Sample      bool     `yaml:"sample" help:"send the bundled requests when the hosts are registered and print the destinations"`
	Once        bool     `yaml:"once" help:"end after the sample's table instead of serving"`
	BusURL      string   `yaml:"bus_url" secret:"url" help:"transport_url of Nova's message bus, to serve its topic scheduler; empty for none"`
	Placement   string   `yaml:"placement" help:"loopback address of the Placement API, which takes the token admin; new root providers go to the first cell, or to NAME below /cells/NAME; empty for none"`
	Pprof       string   `yaml:"pprof" help:"loopback address of /debug/pprof; empty for none"`
}

// Default returns the default of every key.
func Default() Config {
	ingress := Ingress{MiB: 128, CallerMiB: 64, Connections: 16384}
	return Config{
		Log:       Log{Level: "info", Format: "text"},
		Telemetry: Telemetry{Traces: "none", Endpoint: "http://127.0.0.1:4317"},
		Gateway: Gateway{
			HTTP: "127.0.0.1:8080", GRPC: "127.0.0.1:9090", Ingress: ingress,
			ProposeBudget: 250 * time.Millisecond, ClaimBudget: 2 * time.Second, MaxDeadline: 30 * time.Second,
			Breaker: Breaker{
				Failures: 5, OpenFor: time.Second,
				ProbeEvery: 500 * time.Millisecond, ProbeBudget: 500 * time.Millisecond,
			},
			DefaultAvailabilityZone: "nova",
			Nova: NovaOptions{
				HostSubsetSize: 1, MaxIOOpsPerHost: 8, MaxInstancesPerHost: 50, RestrictIsolated: true,
				ImageIsolationSeparator: ".", MetricsRequired: true, MetricsUnavailable: -10000,
			},
			Bus: Bus{
				Exchange: "nova", TransientTTL: 30 * time.Minute, Heartbeat: time.Minute, Prefetch: 64, Timeout: time.Minute,
				ClaimTTL: 5 * time.Minute, MaxAttempts: 3, Reasons: "filters", NotifyTopics: []string{"notifications"},
			},
			Placement: Placement{
				Listen:   "127.0.0.1:8778",
				Keystone: Keystone{UserDomain: "Default", ProjectName: "service", ProjectDomain: "Default", CacheFor: time.Minute},
			},
			WeighMultiplier: 1, MaxInFlight: 1024, AvoidCollisions: true, DecisionQueue: 4096, DrainDelay: 2 * time.Second,
		},
		Cell: Cell{
			GRPC: "127.0.0.1:9101", Ingress: ingress, ServiceDownTime: 60 * time.Second, HeartbeatEvery: 10 * time.Second,
			SnapshotTTL: 2 * time.Second, LeaseScan: time.Second, MaxBatch: 256, MaxQueue: 8192,
			MaxHosts: 50_000, MaxHostsMiB: 1024, MaxAgentHosts: 1024, MaxAgentHostsMiB: 64,
			DecisionsKeep: 24 * time.Hour, MaxDecisions: 100_000, DecisionMiB: 256, JournalMiB: 64, EndedMiB: 64, MaxClockJump: 31 * 24 * time.Hour,
			GateSettle:  60 * time.Second,
			GateClasses: []string{"VCPU", "MEMORY_MB", "DISK_GB"}, GateAgentVersion: 1,
			VerifyMode: "async", VerifyWait: 200 * time.Millisecond,
			ReconcileInterval: time.Minute, ReconcileGrace: 10 * time.Minute, ReconcileRelease: time.Hour, ReconcileRepair: true,
		},
		Agent: Agent{
			Seed: 1, Verify: true,
			Host: Host{
				StateDir: "/var/lib/cellgate-agent", DiskPath: "/var/lib/nova/instances", PollEvery: 10 * time.Second,
				ReservedMemoryMB: 512, CPURatio: 4, MemoryRatio: 1, DiskRatio: 1, HypervisorType: "QEMU",
			},
		},
		Dev: Dev{
			Cells: 3, Hosts: 1000, Seed: 1, HTTP: "127.0.0.1:8080", GRPC: "127.0.0.1:9090", CellBasePort: 9101,
		},
	}
}
