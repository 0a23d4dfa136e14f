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

// novaKey is a key of the gateway that nova.conf has too.
type novaKey struct{ config.Key }

// novaKeys are all such keys.
var novaKeys = func() (all []novaKey) {
	for _, k := range config.Keys("gateway") {
		if k.Nova != "" {
			all = append(all, novaKey{k})
		}
	}
	return all
}()

// fill sets the key to the value in nova.conf.
func (k *novaKey) fill(c *config.Config, s *novaconf.Settings) {
	g := &c.Gateway
	switch k.Path {
	case "gateway.filters":
		g.Filters = s.Filters
	case "gateway.weighers":
		g.Weighers = nil
		for _, w := range s.Weighers {
			g.Weighers = append(g.Weighers, config.Weigher(w))
		}
	case "gateway.pci_alias":
		g.PCIAliases = nil
		for _, alias := range s.PCIAliases {
			g.PCIAliases = append(g.PCIAliases, config.PCIAlias(alias))
		}
	default:
		value := s.Values[k.Nova]
		switch n, _ := value.(int); {
		case k.Kind == config.Duration:
			value = max(time.Duration(n), 1) * time.Second
		case k.Path == "gateway.bus.max_attempts":
			value = min(n, 33)
		}
		config.Set(c, k.Path, value)
	}
}

// knownToNova gives the names of Nova's that this program implements, and a check of aliases.
func knownToNova() novaconf.Known {
	return novaconf.Known{
		Filter: func(name string) bool { return len(rules.UnknownNames([]string{name}, nil)) == 0 },
		Weigher: func(name string) bool {
			return len(rules.UnknownNames(nil, []config.Weigher{{Name: name}})) == 0
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
	if k.Path == "gateway.weighers" {
		return s.WeighersFrom
	}
	return s.From[k.Nova]
}

// contradicts describes how nova.conf sets the key otherwise than the gateway's own configuration; ""
// when it does not. theirs is that configuration with the values of nova.conf.
func (k *novaKey) contradicts(own, theirs config.Config, where string) string {
	mine, other := k.meaning(own), k.meaning(theirs)
	if mine == other {
		return ""
	}
	if k.Secret {
		return fmt.Sprintf("contradicts %s: %s; delete one of the two, or write the same in both", where, k.Nova)
	}
	v := config.Value(own, k.Path)
	written := shown(v)
	if v.Kind() == reflect.Slice {
		written = "[" + written + "]"
	}
	return fmt.Sprintf("%s contradicts %s: %s, which makes it %s; delete one of the two, or write the same in both",
		written, where, k.Nova, cmp.Or(other, "empty"))
}

// meaning gives a key's value in a form that is equal for values that mean the same. Lists have no
// order, and an empty list of filters or weighers means the default ones.
func (k *novaKey) meaning(c config.Config) string {
	v := config.Value(c, k.Path)
	if v.Kind() != reflect.Slice {
		return fmt.Sprint(v.Interface())
	}
	items := itemsOf(v)
	switch k.Path {
	case "gateway.filters":
		if len(items) == 0 {
			items = rules.DefaultFilters()
		}
		items = slices.DeleteFunc(items, novaconf.RunsAnyway)
	case "gateway.weighers":
		items = nil
		for name, multiplier := range multipliersOf(c.Gateway) {
			if multiplier != 0 {
				items = append(items, fmt.Sprintf("%s=%v", name, multiplier))
			}
		}
	}
	slices.Sort(items)
	return strings.Join(items, ",")
}

// multipliersOf gives the multipliers of the weighers that weigh. MetricsWeigher weighs nothing without
// metrics.
func multipliersOf(g config.Gateway) map[string]float64 {
	all := map[string]float64{}
	if len(g.Weighers) == 0 {
		for _, w := range rules.DefaultWeighers(0) {
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
	own, theirs := *c, *c
	for _, k := range novaKeys {
		k.fill(&theirs, s)
	}
	for _, k := range novaKeys {
		path, where := k.Path, k.where(s)
		written := section == "gateway" && from[path] != ""
		switch {
		case !written:
			from[path] = cmp.Or(where, "Nova's default")
		case where == "":
			continue // Nova's default gives way
		default:
			if why := k.contradicts(own, theirs, where); why != "" {
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
		release, _ := novarelease.Parse(c.Gateway.Nova.Release) // checked before
		c.Gateway.Weighers = rules.DefaultWeighers(release)
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

// shown writes a value as a flag takes it.
func shown(v reflect.Value) string {
	if v.Kind() == reflect.Slice {
		return strings.Join(itemsOf(v), ",")
	}
	return fmt.Sprint(v.Interface())
}

// itemsOf writes the items of a list as a flag takes them.
func itemsOf(v reflect.Value) (items []string) {
	for i := range v.Len() {
		items = append(items, fmt.Sprint(v.Index(i).Interface()))
	}
	return items
}
