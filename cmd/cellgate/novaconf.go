package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellgate/gateway/rules"
	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/novaconf"
	"cellgate/internal/novarelease"
)

// configDetails says where the values of a configuration come from. notes name settings of it and of
// nova.conf that have no effect.
type configDetails struct {
	from  config.Origins
	notes []novaconf.Note
	// placement and neutron are the sections of nova.conf.
	placement, neutron novaconf.Service
}

// novaKey is a key of the gateway that nova.conf has too. key is the path below gateway, option Nova's
// name.
type novaKey struct{ key, option string }

// novaKeys are all such keys.
var novaKeys = []novaKey{
	{"filters", "[filter_scheduler] enabled_filters"},
	{"weighers", "[filter_scheduler] weight_classes"},
	{"pci_alias", "[pci] alias"},
	{"default_availability_zone", "[DEFAULT] default_availability_zone"},
	{"nova.host_subset_size", "[filter_scheduler] host_subset_size"},
	{"nova.max_io_ops_per_host", "[filter_scheduler] max_io_ops_per_host"},
	{"nova.max_instances_per_host", "[filter_scheduler] max_instances_per_host"},
	{"nova.isolated_hosts", "[filter_scheduler] isolated_hosts"},
	{"nova.isolated_images", "[filter_scheduler] isolated_images"},
	{"nova.restrict_isolated_hosts_to_isolated_images", "[filter_scheduler] restrict_isolated_hosts_to_isolated_images"},
	{"nova.image_properties_default_architecture", "[filter_scheduler] image_properties_default_architecture"},
	{"nova.aggregate_image_properties_isolation_namespace", "[filter_scheduler] aggregate_image_properties_isolation_namespace"},
	{"nova.aggregate_image_properties_isolation_separator", "[filter_scheduler] aggregate_image_properties_isolation_separator"},
	{"nova.image_props_weight_setting", "[filter_scheduler] image_props_weight_setting"},
	{"nova.limit_tenants_to_placement_aggregate", "[scheduler] limit_tenants_to_placement_aggregate"},
	{"nova.placement_aggregate_required_for_tenants", "[scheduler] placement_aggregate_required_for_tenants"},
	{"nova.query_placement_for_image_type_support", "[scheduler] query_placement_for_image_type_support"},
	{"nova.enable_isolated_aggregate_filtering", "[scheduler] enable_isolated_aggregate_filtering"},
	{"nova.image_metadata_prefilter", "[scheduler] image_metadata_prefilter"},
	{"nova.query_placement_for_routed_network_aggregates", "[scheduler] query_placement_for_routed_network_aggregates"},
	{"nova.pci_in_placement", "[filter_scheduler] pci_in_placement"},
	{"nova.disable_fallback_pcpu_query", "[workarounds] disable_fallback_pcpu_query"},
	{"nova.metrics_weight_setting", "[metrics] weight_setting"},
	{"nova.metrics_required", "[metrics] required"},
	{"nova.metrics_weight_of_unavailable", "[metrics] weight_of_unavailable"},
	{"bus.transport_url", "[DEFAULT] transport_url"},
	{"bus.control_exchange", "[DEFAULT] control_exchange"},
	{"bus.durable_queues", "[oslo_messaging_rabbit] amqp_durable_queues"},
	{"bus.auto_delete", "[oslo_messaging_rabbit] amqp_auto_delete"},
	{"bus.ha_queues", "[oslo_messaging_rabbit] rabbit_ha_queues"},
	{"bus.quorum_queue", "[oslo_messaging_rabbit] rabbit_quorum_queue"},
	{"bus.quorum_delivery_limit", "[oslo_messaging_rabbit] rabbit_quorum_delivery_limit"},
	{"bus.quorum_max_memory_length", "[oslo_messaging_rabbit] rabbit_quroum_max_memory_length"},
	{"bus.quorum_max_memory_bytes", "[oslo_messaging_rabbit] rabbit_quroum_max_memory_bytes"},
	{"bus.transient_queues_ttl", "[oslo_messaging_rabbit] rabbit_transient_queues_ttl"},
	{"bus.heartbeat", "[oslo_messaging_rabbit] heartbeat_timeout_threshold"},
	{"bus.ssl", "[oslo_messaging_rabbit] ssl"},
	{"bus.ca", "[oslo_messaging_rabbit] ssl_ca_file"},
	{"bus.cert", "[oslo_messaging_rabbit] ssl_cert_file"},
	{"bus.key", "[oslo_messaging_rabbit] ssl_key_file"},
	{"bus.verify_host", "[oslo_messaging_rabbit] ssl_enforce_hostname_verification"},
	{"bus.max_attempts", "[scheduler] max_attempts"},
	{"bus.notification_driver", "[oslo_messaging_notifications] driver"},
	{"bus.notification_topics", "[oslo_messaging_notifications] topics"},
	{"bus.notification_url", "[oslo_messaging_notifications] transport_url"},
}

// fill sets the key to the value in nova.conf.
func (k *novaKey) fill(c *config.Config, s *novaconf.Settings) {
	g := &c.Gateway
	switch k.key {
	case "filters":
		g.Filters = s.Filters
	case "weighers":
		g.Weighers = nil
		for _, w := range s.Weighers {
			g.Weighers = append(g.Weighers, config.Weigher(w))
		}
	case "pci_alias":
		g.PCIAliases = nil
		for _, alias := range s.PCIAliases {
			g.PCIAliases = append(g.PCIAliases, config.PCIAlias(alias))
		}
	default:
		value := s.Values[k.option]
		switch n, _ := value.(int); k.key {
		case "bus.transient_queues_ttl", "bus.heartbeat":
			value = max(time.Duration(n), 1) * time.Second
		case "bus.max_attempts":
			value = min(n, 33)
		}
		config.Set(c, "gateway."+k.key, value)
	}
}

// knownToNova gives the names of Nova's that this program implements, and a check of aliases.
func knownToNova() novaconf.Known {
	return novaconf.Known{
		Filter: func(name string) bool { return len(rules.UnknownNames([]string{name}, nil)) == 0 },
		Weigher: func(name string) bool {
			return len(rules.UnknownNames(nil, []rules.WeigherConfig{{Name: name}})) == 0
		},
		PCIAliases: func(all []novaconf.PCIAlias) (int, error) {
			list := make([]rules.PCIAlias, len(all))
			for i, a := range all {
				list[i] = rules.PCIAlias(a)
			}
			return rules.CheckPCIAliases(list)
		},
	}
}

// where gives the line or the lines of nova.conf that set the key; "" for none.
func (k *novaKey) where(s *novaconf.Settings) string {
	if k.key == "weighers" {
		return s.WeighersFrom
	}
	return s.From[k.option]
}

// contradicts describes how nova.conf sets the key otherwise than the gateway's own configuration; ""
// when it does not. theirs is that configuration with the values of nova.conf.
func (k *novaKey) contradicts(own, theirs config.Gateway, where string) string {
	mine, other := k.meaning(own), k.meaning(theirs)
	if mine == other {
		return ""
	}
	if k.isSecret() {
		return fmt.Sprintf("contradicts %s: %s; delete one of the two, or write the same in both", where, k.option)
	}
	return fmt.Sprintf("%s contradicts %s: %s, which makes it %s; delete one of the two, or write the same in both",
		k.written(own), where, k.option, cmp.Or(other, "empty"))
}

// isSecret reports whether the key's value may have a password.
func (k *novaKey) isSecret() bool {
	return slices.ContainsFunc(config.Keys("gateway"), func(c config.Key) bool { return c.Secret && c.Path == "gateway."+k.key })
}

// written gives a key's value as an operator writes it.
func (k *novaKey) written(g config.Gateway) string {
	v := config.Value(config.Config{Gateway: g}, "gateway."+k.key)
	if v.Kind() == reflect.Slice {
		items := make([]string, v.Len())
		for i := range items {
			items[i] = fmt.Sprint(v.Index(i).Interface())
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(v.Interface())
}

// meaning gives a key's value in a form that is equal for values that mean the same. Lists have no
// order, and an empty list of filters or weighers means the default ones.
func (k *novaKey) meaning(g config.Gateway) string {
	var items []string
	switch v := config.Value(config.Config{Gateway: g}, "gateway."+k.key); {
	case k.key == "filters":
		items = slices.Clone(g.Filters)
		if len(items) == 0 {
			items = rules.DefaultFilters()
		}
		items = slices.DeleteFunc(items, novaconf.RunsAnyway)
	case k.key == "weighers":
		for name, multiplier := range multipliersOf(g) {
			if multiplier != 0 {
				items = append(items, fmt.Sprintf("%s=%v", name, multiplier))
			}
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			items = append(items, fmt.Sprint(v.Index(i).Interface()))
		}
	default:
		return fmt.Sprint(v.Interface())
	}
	slices.Sort(items)
	return strings.Join(items, ",")
}

// multipliersOf gives the multipliers of the weighers that weigh. MetricsWeigher weighs nothing without
// metrics.
func multipliersOf(g config.Gateway) map[string]float64 {
	all := map[string]float64{}
	if len(g.Weighers) == 0 {
		for _, w := range rules.DefaultWeighers("") {
			all[w.Name] = w.Multiplier
		}
	}
	for _, w := range g.Weighers {
		all[w.Name] += w.Multiplier
	}
	if len(g.Nova.MetricsSetting) == 0 {
		delete(all, "MetricsWeigher")
	}
	return all
}

// fillFromNova sets the gateway's keys that the operator has not written to the values of nova.conf. A
// key that both have must have the same value. The gateway of dev has no section of its own.
func (d *configDetails) fillFromNova(c *config.Config, section string, from config.Origins) []fault.Field {
	bad := d.readNova(c, section, from)
	d.notePCI(c.Gateway, from["gateway.nova.pci_in_placement"])
	return bad
}

// loadGateway gives a gateway's configuration, with the values of its nova.conf, to a command that is
// no gateway.
func loadGateway(file string, env []string) (config.Config, error) {
	return config.Load("gateway", config.Source{File: file, Env: env, Fill: func(c *config.Config, from config.Origins) []fault.Field {
		return (&configDetails{}).fillFromNova(c, "gateway", from)
	}})
}

// notePCI notes where pci_in_placement, which is set at where, has no effect in this configuration.
func (d *configDetails) notePCI(g config.Gateway, where string) {
	if !g.Nova.PCIInPlacement {
		return
	}
	note := func(why string) {
		d.notes = append(d.notes, novaconf.Note{Where: where, What: "pci_in_placement", Why: why})
	}
	release, err := novarelease.Parse(g.Nova.Release)
	if err != nil {
		return // the check of the configuration says so
	}
	if !release.Has(novarelease.Antelope) {
		note(fmt.Sprintf("has no effect: %s does not have it, it came with %s", release, novarelease.Antelope))
		return
	}
	for _, problem := range rules.PCIPlacementProblems(rulesOf(g).PCIAliases) {
		note("requests by one alias are refused: " + problem)
	}
}

func (d *configDetails) readNova(c *config.Config, section string, from config.Origins) []fault.Field {
	files := c.Gateway.NovaConf
	if section == "dev" {
		c.Gateway, files = config.Default().Gateway, c.Dev.NovaConf
		c.Gateway.Nova.Release = c.Dev.NovaRelease
	}
	if len(files) == 0 {
		return nil
	}
	known := knownToNova()
	release, err := novarelease.Parse(c.Gateway.Nova.Release)
	if err != nil {
		return nil // the check of the configuration says so
	}
	known.Release = release
	s, err := novaconf.Read(files, known)
	var bad []fault.Field
	var p *novaconf.Problems
	if errors.As(err, &p) {
		for _, problem := range p.List {
			bad = append(bad, fault.Field{Path: section + ".nova_conf", Problem: problem})
		}
		return bad
	}
	d.notes, d.placement, d.neutron = s.Notes, s.Placement, s.Neutron
	if release == 0 {
		key := map[string]string{"gateway": "gateway.nova.nova_release", "dev": "dev.nova_release"}[section]
		d.notes = append(d.notes, novaconf.Note{Where: "nova.conf", What: key, Why: "is not set: read as " + release.String() + " does, the newest known: with HypervisorVersionWeigher (since 2023.2) and traits for TPMs (since 2026.1), without names of options from before Ocata"})
	}
	own, theirs := c.Gateway, config.Config{Gateway: c.Gateway}
	for _, k := range novaKeys {
		k.fill(&theirs, s)
	}
	for _, k := range novaKeys {
		path, where := "gateway."+k.key, k.where(s)
		written := section == "gateway" && from[path] != ""
		switch {
		case !written:
			from[path] = cmp.Or(where, "Nova's default")
		case where == "":
			continue // Nova's default gives way
		default:
			if why := k.contradicts(own, theirs.Gateway, where); why != "" {
				bad = append(bad, fault.Field{Path: path, Problem: why})
				continue
			}
		}
		k.fill(c, s)
	}
	for i := range c.Gateway.Legacy {
		l := &c.Gateway.Legacy[i]
		l.ServiceDownTime = cmp.Or(l.ServiceDownTime, s.ServiceDownTime)
	}
	return bad
}

// warn prints the settings that have no effect, each on a line of its own.
func (d *configDetails) warn(w io.Writer, c config.Log) error {
	if len(d.notes) == 0 {
		return nil
	}
	if c.Format == "json" {
		log := newLog(c, terminal{err: w})
		for _, n := range d.notes {
			log.Warn("configuration", slog.String("where", n.Where), slog.String("what", n.What), slog.String("why", n.Why))
		}
		return nil
	}
	if _, err := fmt.Fprintf(w, "configuration, %d notes:\n", len(d.notes)); err != nil {
		return err
	}
	return novaconf.WriteNotes(w, d.notes)
}

// bindServing binds the keys of a command that serves. The function that it gives loads the
// configuration, and warns of settings without effect. With --print-config it prints all of it, and
// done is true.
func bindServing(cmd *cobra.Command, section string, t terminal) func() (c config.Config, details *configDetails, done bool, err error) {
	load := bindKeysWithDetails(cmd, section, t.env)
	printConfig := cmd.Flags().Bool("print-config", false, "print every value in force and where it comes from, and end")
	return func() (config.Config, *configDetails, bool, error) {
		c, details, err := load()
		switch {
		case err != nil:
		case *printConfig:
			err = show(t.out, func(p *page) { details.show(p, c, section) })
		default:
			err = details.warn(t.err, c.Log)
		}
		return c, details, *printConfig, err
	}
}

// show prints the configuration in force: each key, its value and where it was set. It writes lists of
// cells and the like as flags take them.
func (d *configDetails) show(p *page, c config.Config, section string) {
	c.Gateway.Filters = rules.FiltersInForce(c.Gateway.Filters)
	if len(c.Gateway.Weighers) == 0 {
		for _, w := range rules.DefaultWeighers(c.Gateway.Nova.Release) {
			c.Gateway.Weighers = append(c.Gateway.Weighers, config.Weigher(w))
		}
	}
	tab := p.table("KEY", "FROM", "VALUE")
	sections := []string{section, "log", "telemetry"}
	if section == "dev" {
		sections = slices.Insert(sections, 1, "gateway") // what nova.conf fills
	}
	for _, name := range sections {
		for _, k := range config.Keys(name) {
			from := d.from[k.Path]
			if section == "dev" && name == "gateway" && from == "" {
				continue // dev gives the others to its gateway itself
			}
			value := shown(config.Value(c, k.Path))
			if k.Secret {
				value = passwordOf.ReplaceAllString(value, "$1:***@")
			}
			tab.row(k.Path, cmp.Or(from, "default"), value)
		}
	}
	tab.print()
	notes := p.table("WHERE", "WHAT", "WHY IT DOES NOT COUNT")
	for _, n := range d.notes {
		notes.row(n.Where, n.What, n.Why)
	}
	notes.printBelow()
}

// passwordOf matches the password between a user and a host, in a URL of one host or of several. As where
// the URL is read, the last @ ends it.
var passwordOf = regexp.MustCompile(`((?:://|,)[^:/,]*):[^/?#,]*@`)

// shown writes a value as a flag takes it; "-" for an empty one.
func shown(v reflect.Value) string {
	text := fmt.Sprint(v.Interface())
	if v.Kind() == reflect.Slice {
		var items []string
		for i := range v.Len() {
			items = append(items, fmt.Sprint(v.Index(i).Interface()))
		}
		text = strings.Join(items, ",")
	}
	return text
}
