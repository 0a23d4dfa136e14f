package novaconf

import (
	"strings"

	"cellgate/internal/limits"
	"cellgate/internal/novarelease"
)

// option is one of Nova's options and its effect in cellgate. It has an effect unless idle or missing
// is set.
type option struct {
	place
	kind kind
	// weigher is the weigher whose multiplier the option is; "" for other options.
	weigher string
	// old are the option's names in older releases; they still count.
	old []place
	// standard is Nova's default, as text; least is the lowest value of an integer or number.
	standard string
	least    *float64
	// most, if above 0, is the value to which a greater integer is reduced.
	most int64
	// factors: list items that are not NAME=NUMBER are ignored, as in Nova.
	factors bool
	// needed: an empty value means Nova's default.
	needed bool
	// values, if set, are all values that Nova accepts, besides none.
	values []string
	// idle says why the option has no effect in cellgate.
	idle string
	// missing says what cellgate lacks: any value but the default is refused.
	missing string
}

const (
	filters   = "filter_scheduler"
	scheduler = "scheduler"
	metrics   = "metrics"
	// workarounds has options of other services, too: only those of the scheduler are read, and no name
	// in it counts as unknown.
	workarounds = "workarounds"
	// pci has options of computes, too: only alias is read.
	pci = "pci"
	// rabbit has options of clients and of notifications, too: only those of servers are read.
	rabbit = "oslo_messaging_rabbit"
	// notifying has oslo.messaging's options, notifications those of every service of Nova.
	notifying     = "oslo_messaging_notifications"
	notifications = "notifications"
)

// opt is an option; old are its names in [DEFAULT] in older releases.
func opt(group, name string, k kind, standard string, old ...string) option {
	o := option{place: place{group, name}, kind: k, standard: standard}
	for _, name := range old {
		o.old = append(o.old, place{"DEFAULT", name})
	}
	return o
}

func (o option) from(n float64) option        { o.least = &n; return o }
func (o option) upTo(n int64) option          { o.most = n; return o }
func (o option) ofFactors() option            { o.factors = true; return o }
func (o option) oneOf(values []string) option { o.values = values; return o }
func (o option) weighs(weigher string) option { o.weigher = weigher; return o }
func (o option) noEffect(why string) option   { o.idle = why; return o }
func (o option) notYet(what string) option    { o.missing = what; return o }

// multiplier is the option of a weigher's multiplier.
func multiplier(weigher, name, standard string, old ...string) option {
	return opt(filters, name, number, standard, old...).weighs(weigher)
}

// tableOfOptions has every option of the sections that Nova's scheduler reads, including those of older
// releases that configurations still have.
func tableOfOptions() []option {
	removed := func(group, name, why string, old ...string) option {
		return opt(group, name, text, "", old...).noEffect(why)
	}
	elsewhere := func(name, standard, why string) option {
		return opt("DEFAULT", name, text, standard).noEffect(why)
	}
	return []option{
		opt(filters, "available_filters", several, "nova.scheduler.filters.all_filters", "scheduler_available_filters"),
		opt(filters, "enabled_filters", list, strings.Join(novarelease.Release(0).DefaultFilters(), ","), "scheduler_default_filters"),
		opt(filters, "weight_classes", list, allWeighers, "scheduler_weight_classes"),

		multiplier("RAMWeigher", "ram_weight_multiplier", "1.0", "ram_weight_multiplier"),
		multiplier("CPUWeigher", "cpu_weight_multiplier", "1.0"),
		multiplier("DiskWeigher", "disk_weight_multiplier", "1.0", "disk_weight_multiplier"),
		multiplier("HypervisorVersionWeigher", "hypervisor_version_weight_multiplier", "1.0"),
		multiplier("NumInstancesWeigher", "num_instances_weight_multiplier", "0.0"),
		multiplier("IoOpsWeigher", "io_ops_weight_multiplier", "-1.0", "io_ops_weight_multiplier"),
		multiplier("ImagePropertiesWeigher", "image_props_weight_multiplier", "0.0"),
		multiplier("PCIWeigher", "pci_weight_multiplier", "1.0").from(0),
		multiplier("ServerGroupSoftAffinityWeigher", "soft_affinity_weight_multiplier", "1.0", "soft_affinity_weight_multiplier").from(0),
		multiplier("ServerGroupSoftAntiAffinityWeigher", "soft_anti_affinity_weight_multiplier", "1.0", "soft_anti_affinity_weight_multiplier").from(0),
		multiplier("BuildFailureWeigher", "build_failure_weight_multiplier", "1000000.0"),
		multiplier("CrossCellWeigher", "cross_cell_move_weight_multiplier", "1000000.0"),
		opt(metrics, "weight_multiplier", number, "1.0").weighs("MetricsWeigher"),

		opt(filters, "host_subset_size", integer, "1", "scheduler_host_subset_size").from(1).upTo(limits.Subset),
		opt(filters, "max_io_ops_per_host", integer, "8", "max_io_ops_per_host").from(0),
		opt(filters, "max_instances_per_host", integer, "50", "max_instances_per_host").from(1),
		opt(filters, "isolated_images", list, "", "isolated_images"),
		opt(filters, "isolated_hosts", list, "", "isolated_hosts"),
		opt(filters, "restrict_isolated_hosts_to_isolated_images", boolean, "true", "restrict_isolated_hosts_to_isolated_images"),
		opt(filters, "aggregate_image_properties_isolation_namespace", text, "", "aggregate_image_properties_isolation_namespace"),
		opt(filters, "aggregate_image_properties_isolation_separator", text, ".", "aggregate_image_properties_isolation_separator"),
		opt(filters, "image_properties_default_architecture", text, "").oneOf(architectures),
		opt(filters, "image_props_weight_setting", list, "").ofFactors(),
		opt(metrics, "weight_setting", list, "").ofFactors(),
		opt(metrics, "required", boolean, "true"),
		opt(metrics, "weight_of_unavailable", number, "-10000.0"),
		{place: place{"DEFAULT", "default_availability_zone"}, standard: "nova", needed: true},
		opt("DEFAULT", "service_down_time", integer, "60").noEffect("a cell says when a host counts as down: its cell.service_down_time (Nova's services in cells of gateway.legacy go by this option)"),
		opt("DEFAULT", "report_interval", integer, "10").noEffect("agents say how often they report"),
		elsewhere("cpu_allocation_ratio", "", "the ratio is that of the inventory which a host reports"),
		elsewhere("ram_allocation_ratio", "", "the ratio is that of the inventory which a host reports"),
		elsewhere("disk_allocation_ratio", "", "the ratio is that of the inventory which a host reports"),

		opt("DEFAULT", "transport_url", text, "rabbit://"),
		{place: place{"DEFAULT", "control_exchange"}, standard: "nova", needed: true},
		opt(rabbit, "amqp_durable_queues", boolean, "false"),
		opt(rabbit, "amqp_auto_delete", boolean, "false"),
		opt(rabbit, "rabbit_quorum_queue", boolean, "false"),
		opt(rabbit, "rabbit_quorum_delivery_limit", integer, "0").from(0),
		opt(rabbit, "rabbit_quroum_max_memory_length", integer, "0").from(0),
		opt(rabbit, "rabbit_quroum_max_memory_bytes", integer, "0").from(0),
		opt(rabbit, "rabbit_transient_queues_ttl", integer, "1800").from(1),
		opt(rabbit, "heartbeat_timeout_threshold", integer, "60").from(0).upTo(3600),
		opt(rabbit, "ssl", boolean, "false"),
		opt(rabbit, "ssl_ca_file", text, ""),
		opt(rabbit, "ssl_cert_file", text, ""),
		opt(rabbit, "ssl_key_file", text, ""),
		opt(rabbit, "ssl_enforce_hostname_verification", boolean, "false"),

		{place: place{notifying, "driver"}, kind: several},
		opt(notifying, "topics", list, "notifications"),
		opt(notifying, "transport_url", text, ""),
		opt(notifications, "notification_format", text, "unversioned").oneOf([]string{"both", "versioned", "unversioned"}),

		{place: place{pci, "alias"}, kind: several},
		opt(filters, "pci_in_placement", boolean, "false"),
		opt(scheduler, "limit_tenants_to_placement_aggregate", boolean, "false"),
		opt(scheduler, "placement_aggregate_required_for_tenants", boolean, "false"),
		opt(scheduler, "enable_isolated_aggregate_filtering", boolean, "false"),
		opt(scheduler, "query_placement_for_image_type_support", boolean, "false"),
		opt(scheduler, "image_metadata_prefilter", boolean, "false"),
		opt(workarounds, "disable_fallback_pcpu_query", boolean, "false"),
		opt(scheduler, "query_placement_for_routed_network_aggregates", boolean, "false"),

		opt(filters, "track_instance_changes", boolean, "true", "scheduler_tracks_instance_changes").
			noEffect("computes cast to schedulers by their own option: a gateway on the message bus reads Nova's tables at each cast"),
		opt(filters, "shuffle_best_same_weighed_hosts", boolean, "false").
			noEffect("hosts of equal weight are always shuffled, by the request's seed"),
		opt(scheduler, "max_attempts", integer, "3", "scheduler_max_attempts").from(1),
		opt(scheduler, "discover_hosts_in_cells_interval", integer, "-1").
			noEffect("only nova-scheduler maps new hosts to cells by itself: without it, run nova-manage cell_v2 discover_hosts for each new host"),
		opt(scheduler, "max_placement_results", integer, "1000").
			noEffect("every host is looked at"),
		opt(scheduler, "workers", integer, "").
			noEffect("a gateway uses all processors; run more gateways instead"),
		opt(scheduler, "query_placement_for_availability_zone", boolean, "true").
			noEffect("AvailabilityZoneFilter always runs, over the zones of aggregates"),

		removed(scheduler, "driver", "there is one scheduler", "scheduler_driver"),
		removed(scheduler, "host_manager", "there is one host table", "scheduler_host_manager"),
		removed(scheduler, "periodic_task_interval", "nothing is refreshed periodically", "scheduler_driver_task_period"),
		removed(scheduler, "scheduler_topic", "there is no message queue", "scheduler_topic"),
		removed(filters, "baremetal_enabled_filters", "Nova removed it in 16.0.0", "baremetal_scheduler_default_filters"),
		opt(filters, "use_baremetal_filters", boolean, "false", "scheduler_use_baremetal_filters").
			notYet("filters of bare metal, which Nova removed in 16.0.0"),
	}
}
