package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellgate/gateway"
	"cellgate/gateway/legacy"
	"cellgate/internal/config"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newDoctorUpgrade(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Say what stands in the way of a cell's upgrade from Nova's own tables",
		Long: `Say, for each cell of gateway.legacy, what stands between it and NATIVE: hosts whose
nova-compute or agent is old, or whose agent reports other names, another capacity, other
aggregates or another hypervisor than Nova has of it, rows that are no hosts, instances without a host's row or
without a claim, allocation ratios that change their meaning, and filters of nova.conf to delete.

It reads the legacy databases and the cells, and changes nothing.

Exit status: 0 when nothing stands in the way (notes and warnings do not), 1 otherwise.`,
		Example: "  cellgate doctor upgrade --config deploy/examples/gateway.yaml\n  cellgate doctor upgrade --config /etc/cellgate/gateway.yaml --cell cell1 --nova-conf deploy/examples/nova.conf -o json",
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
		c, err := config.Load("gateway", config.Source{File: *file, Env: t.env, Fill: filtersFromNova})
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
		read := gateway.ReadOfHypervisors(c.Gateway.Filters, c.Gateway.FilterExpression)
		using := d.limits(*confs, c.Gateway.Nova)
		for _, l := range cells {
			u := &upgrade{doctor: d, conf: l, cell: cellOf(c.Gateway, l.Cell), using: using, agents: map[string]*cellgatev1.Host{}, hypervisors: map[string]*cellv1.Hypervisor{}, read: read, told: map[string]bool{}}
			u.examine(c.Gateway.CellTLS)
		}
		return d.tell(cmd.OutOrStdout(), asJSON)
	}
	return cmd
}

// filtersFromNova gives the filters that a gateway takes from nova.conf. A file that cannot
// be read is told of by itself.
func filtersFromNova(c *config.Config, from config.Origins) []fault.Field {
	only, origins := *c, config.Origins{}
	maps.Copy(origins, from)
	if (&told{}).fillFromNova(&only, "gateway", origins) == nil {
		c.Gateway.Filters = only.Gateway.Filters
	}
	return nil
}

// mostNamed is how many hosts of a kind are named; the others are counted.
const mostNamed = 20

// upgrade examines one cell.
type upgrade struct {
	*doctor
	conf  config.LegacyCell
	cell  config.GatewayCell
	using *limited
	// agents are the cell's hosts by uuid; heard: the cell answered.
	agents map[string]*cellgatev1.Host
	heard  bool
	// hypervisors are those of agents; a cell of before says none. read is what the gateway's
	// filters read of them.
	hypervisors map[string]*cellv1.Hypervisor
	read        gateway.HypervisorRead
	// native: so its gate is. differs: it is SHADOW, and too many comparisons differ.
	native, differs bool
	// scheduler are the cell's replicas, nil when it has none.
	scheduler *replicas
	// readers are the gateways that report the legacy tables to any of them.
	readers map[string]*cellgatev1.GateReader
	// required is the version of services that the gate goes by; 0: it does not say.
	required int32
	// readTo is the newest time in the rows that the doctor reads.
	readTo time.Time
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
		u.behind()
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
	for in, more := (&cellv1.ListHostsRequest{PageSize: maxPage, WantHypervisors: true}), true; more; {
		ctx, cancel := context.WithTimeout(u.ctx, 10*time.Second)
		page, err := u.scheduler.ListHosts(ctx, in)
		cancel()
		if err != nil {
			u.unheard(err)
			return
		}
		for i, h := range page.GetHosts() {
			u.agents[h.GetHostUuid()] = h
			if of := page.GetHypervisorOf(); len(of) == len(page.GetHosts()) && of[i] >= 0 && int(of[i]) < len(page.GetHypervisors()) {
				u.hypervisors[h.GetHostUuid()] = page.GetHypervisors()[of[i]]
			}
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
	u.heartbeats(x)
	u.readTo = x.Written
	u.services(x)
	u.disputes(x)
	u.withoutRows(x)
	u.registered(x)
	u.reported(x)
	u.outOfService(x)
	u.rowless(x)
	u.unknownInstances()
	u.leftOut(x)
	u.aggregates(x)
	u.ratios(x)
	return errors.Join(u.deleted(reader), u.instances(reader, x))
}

// aheadTold is how far a heartbeat may be ahead of the server's clock untold.
const aheadTold = 5 * time.Second

// heartbeats examines how far behind the data of the database are.
func (u *upgrade) heartbeats(x *legacy.Snapshot) {
	down := cmp.Or(u.conf.ServiceDownTime, time.Minute)
	if n := max(x.Ahead, x.Heartbeat.Sub(x.At)); n > aheadTold {
		u.say("clock", warned, "the newest heartbeat of any service is "+n.Round(time.Second).String()+" ahead of the clock of the database's server",
			"set the clocks of Nova's machines and of the server alike (NTP): a service whose heartbeats are further ahead than service_down_time counts as down")
	}
	if !x.Silent(down) {
		u.doctor.ok(u.conf.Cell+" legacy database", "has %s and %s of nova-compute, read in %v", counted(len(x.Hosts), "host"), counted(len(x.Services), "live service"), x.Took.Round(time.Millisecond))
		return
	}
	u.say("legacy database", unhealthy, x.WhySilent(down),
		"read a database that is not behind (gateway.legacy), start Nova's services, or correct the clock: gateways answer nothing from it meanwhile (the cell is unavailable while its gate is LEGACY or SHADOW), import nothing, and take no host for down by it")
}
