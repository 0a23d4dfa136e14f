package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellgate/gateway/legacy"
	"cellgate/internal/config"
	"cellgate/internal/novaconf"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newDoctorUpgrade(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Say what stands in the way of a cell's upgrade from Nova's own tables",
		Long: `Say, for each cell of gateway.legacy, what stands between it and NATIVE: hosts whose
nova-compute or agent is old, rows that are no hosts, instances without a host's row or
without a claim, allocation ratios that change their meaning, and filters of nova.conf to delete.

It reads the legacy databases and the cells, and changes nothing.

Exit status: 0 when nothing stands in the way (notes and warnings do not), 1 otherwise.`,
		Example: "  cellgate doctor upgrade --config deploy/examples/gateway.yaml\n  cellgate doctor upgrade --config gateway.yaml --cell cell1 --nova-conf /etc/nova/nova.conf -o json",
		Args:    usageArgs(cobra.NoArgs),
	}
	f := cmd.Flags()
	file := f.String("config", "", "YAML file of the gateway, with gateway.legacy")
	only := f.String("cell", "", "look at this cell only")
	confs := f.StringArray("nova-conf", nil, "nova.conf of the scheduler that runs today; again for each; by default gateway.nova_conf")
	timeout := f.Duration("timeout", 5*time.Minute, "how long it may take")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		asJSON, err := output(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		d := &doctor{ctx: ctx, now: time.Now}
		c, err := config.Load("gateway", config.Source{File: *file, Env: t.env})
		if err != nil {
			return err
		}
		cells := c.Gateway.Legacy
		if *only != "" {
			cells = slices.DeleteFunc(slices.Clone(cells), func(l config.LegacyCell) bool { return l.Cell != *only })
			if len(cells) == 0 {
				return usage(cmd, fmt.Errorf("--cell: %q is none of gateway.legacy", *only))
			}
		}
		if len(cells) == 0 {
			d.add("gateway.legacy", noted, "names no cell: none is under upgrade", "")
		}
		if len(*confs) == 0 {
			*confs = c.Gateway.NovaConf
		}
		using := d.redundant(*confs)
		for _, l := range cells {
			u := &upgrade{doctor: d, conf: l, cell: cellOf(c.Gateway, l.Cell), using: using, agents: map[string]*cellgatev1.Host{}, told: map[string]bool{}}
			u.examine(c.Gateway.CellTLS)
		}
		return d.tell(cmd.OutOrStdout(), asJSON)
	}
	return cmd
}

// mostNamed is how many hosts of a kind are named; the others are counted.
const mostNamed = 20

// resourceFilters are the filters that Placement made redundant, and the resource whose
// ratio each judges by.
var resourceFilters = map[string]string{"CoreFilter": "cpu", "RamFilter": "ram", "DiskFilter": "disk"}

// redundant examines the filters of nova.conf, and gives the resources that one of them
// limits; nil when there is no nova.conf to say it.
func (d *doctor) redundant(files []string) map[string]bool {
	const check = "filters of nova.conf"
	if len(files) == 0 {
		d.add(check, noted, "no nova.conf is given: redundant filters, and ratios that matter only without them, are not looked at", "give --nova-conf, or set gateway.nova_conf")
		return nil
	}
	s, err := novaconf.Read(files, knownToNova())
	if err != nil {
		d.add(check, unhealthy, err.Error(), "correct it: a gateway with this file does not start")
		return nil
	}
	using := map[string]bool{}
	for _, n := range s.Notes {
		if !strings.HasPrefix(n.Why, "redundant") {
			continue
		}
		d.add(check, warned, n.What+" is "+n.Why, "delete "+n.What+" from [filter_scheduler] enabled_filters ("+n.Where+")")
		if resource, is := resourceFilters[n.What]; is {
			using[resource] = true
		}
	}
	if len(using) == 0 {
		d.ok(check, "none of %s is enabled", strings.Join(slices.Sorted(maps.Keys(resourceFilters)), ", "))
	}
	return using
}

// upgrade examines one cell.
type upgrade struct {
	*doctor
	conf  config.LegacyCell
	cell  config.GatewayCell
	using map[string]bool
	// agents are the cell's hosts by uuid; heard: the cell answered.
	agents map[string]*cellgatev1.Host
	heard  bool
	// scheduler are the cell's replicas, nil when it has none.
	scheduler *replicas
	// told are the service hosts whose nova-compute is too old: what is said of them
	// covers their agents.
	told map[string]bool
}

// each adds a diagnosis for each of the first names, and one for the rest.
func (u *upgrade) each(check, status string, all []diagnosis) {
	for _, d := range all[:min(len(all), mostNamed)] {
		u.add(u.conf.Cell+" "+d.Check, status, d.What, d.Do)
	}
	if n := len(all) - mostNamed; n > 0 {
		u.add(u.conf.Cell+" "+check, status, fmt.Sprintf("and %d more", n), all[0].Do)
	}
}

func (u *upgrade) say(check, status, what, do string) { u.add(u.conf.Cell+" "+check, status, what, do) }

func (u *upgrade) examine(tls config.ClientTLS) {
	conf, err := readerConfig(u.conf, u.cell.UUID)
	if err == nil {
		conf.MaxLeftOut = 100_000 // all of them: each kind is told apart
		defer u.dial(tls)()
		u.ask()
		err = u.tables(conf)
	}
	if err != nil {
		u.say("legacy database", unhealthy, problemOf(err), "correct it: a cell whose services cannot be read counts as old, and its gate does not open")
	}
}

// problemOf is an error in a line, with what a reader found to be the trouble.
func problemOf(err error) string {
	text := wording(err)
	if t := legacy.TroubleOf(err); t != "" {
		text += " (" + string(t) + ")"
	}
	return strings.ReplaceAll(text, "\n", "; ")
}

// dial connects to the cell's scheduler; what it gives ends that.
func (u *upgrade) dial(tls config.ClientTLS) (end func()) {
	if u.conf.Only {
		return func() {}
	}
	r, err := dialReplicas(tls, u.cell)
	if err != nil {
		u.unheard(err)
		return func() {}
	}
	u.scheduler = r
	return func() { _ = r.Close() } // its calls are over
}

func (u *upgrade) unheard(err error) {
	u.say("scheduler", unhealthy, "the cell does not list its hosts: "+problemOf(err), "start its scheduler: claims go to its shard in every state of the gate, and agents register there")
}

// ask lists the cell's hosts.
func (u *upgrade) ask() {
	if u.conf.Only {
		u.say("scheduler", noted, "is legacy_only: each gateway runs one for the cell, with a shard in memory, and its gate stays at LEGACY", "run the cell's own, and name its replicas instead of legacy_only, before its first agent")
		return
	}
	if u.scheduler == nil {
		return
	}
	for in, more := (&cellv1.ListHostsRequest{PageSize: maxPage}), true; more; {
		ctx, cancel := context.WithTimeout(u.ctx, 10*time.Second)
		page, err := u.scheduler.ListHosts(ctx, in)
		cancel()
		if err != nil {
			u.unheard(err)
			return
		}
		for _, h := range page.GetHosts() {
			u.agents[h.GetHostUuid()] = h
			in.AfterServiceHost, in.AfterHostUuid = h.GetServiceHost(), h.GetHostUuid()
		}
		more = page.GetMore() && len(page.GetHosts()) > 0
	}
	u.heard = true
	u.doctor.ok(u.conf.Cell+" scheduler", "has %s", counted(len(u.agents), "host"))
	u.gate(u.scheduler)
}

// tables examines what the legacy database has.
func (u *upgrade) tables(conf legacy.Config) error {
	reader, err := legacy.Open(u.ctx, conf)
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }() // it has been read
	x, err := reader.Load(u.ctx)
	if err != nil {
		return err
	}
	u.doctor.ok(u.conf.Cell+" legacy database", "has %s and %s of nova-compute, read in %v", counted(len(x.Hosts), "host"), counted(len(x.Services), "live service"), x.Took.Round(time.Millisecond))
	u.services(x)
	u.registered(x)
	u.rowless(x)
	u.leftOut(x)
	u.ratios(x)
	return errors.Join(u.deleted(reader), u.instances(reader, x))
}

// services names those that are older than required.
func (u *upgrade) services(x *legacy.Snapshot) {
	required := int64(u.conf.RequiredVersion)
	if required == 0 {
		u.say("services", warned, "required_version is not set: the gate never opens", "set required_version in gateway.legacy to the version that the upgraded nova-compute reports (SELECT max(version) FROM services)")
		return
	}
	down := u.conf.ServiceDownTime
	if down == 0 {
		down = time.Minute
	}
	var old, silent []diagnosis
	for i := range x.Services {
		s := &x.Services[i]
		if s.Version >= required {
			continue
		}
		kept := u.keptByAgent(s.Host)
		d := diagnosis{
			Check: "host " + s.Host,
			What:  fmt.Sprintf("nova-compute is of version %d, %d is required; agent %s; last seen %s", s.Version, required, u.agentOf(s.Host), age(x.At, s.LastSeenUp)),
			Do:    "upgrade nova-compute there, and start an agent beside it",
		}
		if kept != nil {
			d.What += "; " + keptText(kept)
			d.Do = "upgrade nova-compute there, or stop its agent: no gateway imports the host's instances while that may be alive"
		}
		if why := silence(s, x.At, down); why != "" {
			d.What += "; it does not hold the gate: " + why
			if kept.GetUp() {
				silent = append(silent, d)
				continue
			}
			d.Do = "openstack compute service delete " + s.UUID + ", if it is gone for good; it holds the gate again once it is up"
			silent = append(silent, d)
			continue
		}
		old = append(old, d)
		u.told[s.Host] = true
	}
	u.each("services", unhealthy, old)
	u.each("services", warned, silent)
	if len(old) == 0 {
		u.doctor.ok(u.conf.Cell+" services", "every one that counts is of version %d or above", required)
	}
}

// silence says why an old service does not hold the gate; "" when it does.
func silence(s *legacy.Service, now time.Time, down time.Duration) string {
	switch up := s.Up(now, down); {
	case s.ForcedDown:
		return "it is forced down"
	case up:
		return ""
	case s.Disabled:
		return "it is disabled and down"
	case s.LastSeenUp.IsZero() || now.Sub(s.LastSeenUp) >= 2*down:
		return "it is down for long"
	}
	return ""
}

func age(now, seen time.Time) string {
	if seen.IsZero() {
		return "never"
	}
	d := now.Sub(seen)
	switch {
	case d > 48*time.Hour:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	case d > time.Minute:
		return d.Round(time.Minute).String() + " ago"
	}
	return max(d, 0).Round(time.Second).String() + " ago"
}

// agentOf says what agents a service host has.
func (u *upgrade) agentOf(host string) string {
	if !u.heard {
		return "unknown"
	}
	for _, h := range u.agents {
		switch {
		case h.GetServiceHost() != host || h.GetAgentVersion() == 0:
		case h.GetImported():
			return fmt.Sprintf("none (taken back from version %d)", h.GetAgentVersion())
		default:
			return fmt.Sprintf("version %d", h.GetAgentVersion())
		}
	}
	return "none"
}

// keptByAgent gives a host of a service that is its agent's; nil when there is none.
func (u *upgrade) keptByAgent(host string) *cellgatev1.Host {
	for _, h := range u.agents {
		if h.GetServiceHost() == host && h.GetAgentVersion() > 0 && !h.GetImported() {
			return h
		}
	}
	return nil
}

// keptText says what comes of a host whose service is old, and which is its agent's.
func keptText(h *cellgatev1.Host) string {
	if h.GetUp() {
		return "the host is still its agent's, which is alive"
	}
	return "the host is still its agent's, which is silent: a gateway takes it back when that has lasted for the cell's service_down_time and half of it"
}

// registered names the hosts that no agent has registered, beside those whose nova-compute
// is too old as well.
func (u *upgrade) registered(x *legacy.Snapshot) {
	if !u.heard {
		return
	}
	down := u.conf.ServiceDownTime
	if down == 0 {
		down = time.Minute
	}
	quiet := map[string]string{}
	for i := range x.Services {
		quiet[x.Services[i].Host] = silence(&x.Services[i], x.At, down)
	}
	var without, silent []diagnosis
	n, beside := 0, 0
	for i := range x.Hosts {
		h := &x.Hosts[i]
		if h.Disabled {
			continue
		}
		n++
		if in := u.agents[h.UUID.String()]; in == nil || in.GetAgentVersion() == 0 || in.GetImported() {
			if u.told[h.ServiceHost] {
				beside++
				continue
			}
			what := "no agent has registered compute node " + h.UUID.String() + ": no request finds it once the cell is NATIVE"
			switch {
			case in.GetAgentVersion() > 0:
				what = fmt.Sprintf("compute node %s was taken back from its agent, version %d", h.UUID, in.GetAgentVersion())
			case in != nil:
				what += "; it is imported"
			}
			d := diagnosis{Check: "host " + h.ServiceHost, What: what, Do: "start its agent with this cell's replicas: " + strings.Join(u.cell.Replicas, ", ")}
			if why := quiet[h.ServiceHost]; why != "" {
				d.What += "; it does not hold the gate: " + why
				silent = append(silent, d)
				continue
			}
			without = append(without, d)
		}
	}
	u.each("agents", unhealthy, without)
	u.each("agents", warned, silent)
	if len(without)+len(silent)+beside == 0 {
		u.doctor.ok(u.conf.Cell+" agents", "have registered all of %s", counted(n, "enabled host"))
	}
}

// remedies are what to do about rows that are no hosts, and whether they stand in the
// way: a compute that runs without one does.
var remedies = map[legacy.Reason]struct{ status, do string }{
	legacy.NoHost:          {warned, "delete the row, it is from before Kilo; or start its nova-compute once"},
	legacy.NoService:       {warned, "start its nova-compute, or delete the row"},
	legacy.MappedElsewhere: {unhealthy, "nova-manage cell_v2 delete_host --cell_uuid UUID --host HOST where it does not belong, then discover_hosts"},
	legacy.Unmapped:        {unhealthy, "nova-manage cell_v2 discover_hosts"},
	legacy.BadUUID:         {unhealthy, "restart its nova-compute, which gives the row a uuid of its own"},
	legacy.TooLarge:        {unhealthy, "see what fills the row's texts"},
	legacy.NoNode:          {unhealthy, "delete the row, or restart its nova-compute"},
	legacy.NullColumn:      {unhealthy, "restart its nova-compute, which fills the column"},
	legacy.NegativeTotal:   {unhealthy, "restart its nova-compute, which fills the column"},
	legacy.NotReported:     {warned, "wait until its nova-compute has reported, or restart it"},
	legacy.Unreadable:      {unhealthy, "restart its nova-compute, which writes the column anew; Nova fails whole requests on it"},
}

func (u *upgrade) leftOut(x *legacy.Snapshot) {
	by := map[legacy.Reason][]diagnosis{}
	for _, l := range x.LeftOut {
		remedy := remedies[l.Reason]
		do := remedy.do
		if strings.Contains(l.Detail, "compared with case") {
			do = "give compute_nodes.host and services.host the same case: nova-compute's [DEFAULT] host"
		}
		by[l.Reason] = append(by[l.Reason], diagnosis{
			Check: fmt.Sprintf("row %d of compute_nodes", l.NodeID), What: strings.Join(strings.Fields(fmt.Sprintf("is no host (%s): %s %s %s", l.Reason, l.Host, l.Column, l.Detail)), " "), Do: do,
		})
	}
	for _, why := range slices.Sorted(maps.Keys(by)) {
		u.each("compute_nodes: "+string(why), remedies[why].status, by[why])
	}
}

// ratios tells of those that are not set, and of those that limit what nothing limits
// today.
func (u *upgrade) ratios(x *legacy.Snapshot) {
	for _, r := range x.Ratios() {
		name := r.Resource + "_allocation_ratio"
		if r.Unset > 0 {
			u.say(name, noted, fmt.Sprintf("is NULL or 0.0 in %s, and counts as %v there", counted(r.Unset, "row"), r.Becomes),
				"set "+name+" or initial_"+name+" of the cell in gateway.legacy to what the computes' nova.conf has, when it is not that; agents report a ratio of their own")
		}
		if u.using == nil || u.using[r.Resource] || r.Low == 0 {
			continue
		}
		filter := ""
		for f, resource := range resourceFilters {
			if resource == r.Resource {
				filter = f
			}
		}
		u.say(name, warned, fmt.Sprintf("%s is not enabled, and %s less than %v: where Placement does not limit the resource either (before Ocata) nothing does, and the shard will, by total * ratio", filter, countedHave(r.Low), legacy.Unlimited),
			"if so and it is to stay so, set "+name+" = 9999.0 on the computes before the move (Nova's release notes say 9999.0, its specification 10000.0: either is beyond what a host can hold); if Placement limits it, leave it")
	}
}

func countedHave(rows int) string {
	if rows == 1 {
		return "1 row has"
	}
	return fmt.Sprintf("%d rows have", rows)
}

// deleted counts the rows that do not count.
func (u *upgrade) deleted(r *legacy.Reader) error {
	if u.conf.RequiredVersion == 0 {
		return nil
	}
	n, err := r.DeletedServices(u.ctx, int64(u.conf.RequiredVersion))
	if err == nil && n > 0 {
		u.say("services", noted, counted(n, "deleted row")+" of old services: Nova's own gate would have waited for them for ever (bug 1668310), this one does not count them", "")
	}
	return err
}
