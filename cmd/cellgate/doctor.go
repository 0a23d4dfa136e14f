package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellgate/internal/config"
	"cellgate/internal/security"
)

// The statuses of a result.
const (
	found     = "ok"
	noted     = "note"
	warned    = "warn"
	unhealthy = "FAIL"
)

// result is one line of a report: what was seen, and what to do about it.
type result struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	What   string `json:"what"`
	Do     string `json:"do,omitempty"`
	// group names the results of which only the first mostNamed are printed.
	group string
}

type results []result

// diagnose makes one result, which has the name of its check.
func diagnose(status, what, do string) results {
	return results{{Status: status, What: what, Do: do}}
}

func good(format string, args ...any) results {
	return diagnose(found, fmt.Sprintf(format, args...), "")
}

// named gives the object that the results are of, in place of their check.
func (r results) named(object string) results {
	for i := range r {
		r[i].Check = object
	}
	return r
}

// in puts the results into a group.
func (r results) in(group string) results {
	for i := range r {
		r[i].group = group
	}
	return r
}

// atLeast judges an amount by the least that works and by what is enough.
func atLeast[N int64 | uint64](n, least, enough N, what, do string) results {
	switch {
	case n < least:
		return diagnose(unhealthy, what, do)
	case n < enough:
		return diagnose(warned, what, do)
	}
	return good("%s", what)
}

// check is one question to the evidence E. run must not change the evidence; when, if it is set,
// says whether the evidence has what run needs.
type check[E any] struct {
	name string
	run  func(E) results
	when func(E) bool
}

// mostNamed is how many results of a group and a status are printed; the others are counted.
const mostNamed = 20

// examine runs checks in their order. prefix begins the name of every result.
func examine[E any](prefix string, evidence E, checks ...check[E]) results {
	var out results
	for _, c := range checks {
		if c.when != nil && !c.when(evidence) {
			continue
		}
		count := map[result]int{}
		var kinds []result
		for _, r := range c.run(evidence) {
			if r.Check == "" {
				r.Check = c.name
			}
			r.Check = prefix + r.Check
			kind := result{Status: r.Status, group: r.group}
			if count[kind]++; r.group != "" && count[kind] > mostNamed {
				if count[kind] == mostNamed+1 {
					kinds = append(kinds, result{Status: r.Status, Do: r.Do, group: r.group})
				}
				continue
			}
			out = append(out, r)
		}
		for _, k := range kinds {
			more := count[result{Status: k.Status, group: k.group}] - mostNamed
			out = append(out, result{Check: prefix + k.group, Status: k.Status, What: fmt.Sprintf("and %d more", more), Do: k.Do})
		}
	}
	return out
}

var errUnhealthy = errors.New("something failed; the lines above say what to do")

// print writes the report; its error says that a check failed.
func (r results) print(w io.Writer, asJSON bool) error {
	count := map[string]int{}
	for _, one := range r {
		count[one.Status]++
	}
	var err error
	if asJSON {
		err = encode(w, map[string]any{"ok": count[unhealthy] == 0, "checks": r})
	} else {
		err = show(w, func(p *page) {
			t := p.table("CHECK", "STATUS", "WHAT", "WHAT TO DO")
			for _, one := range r {
				t.row(one.Check, one.Status, strings.ReplaceAll(one.What, "\n", "; "), one.Do)
			}
			t.print()
			p.printf("%d ok, %s, %s, %s\n", count[found], counted(count[noted], "note"), counted(count[warned], "warning"), counted(count[unhealthy], "failure"))
		})
	}
	if err != nil {
		return err
	}
	if count[unhealthy] > 0 {
		return errUnhealthy
	}
	return nil
}

func newDoctor(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether a process can run here, and what it needs",
		Long: `Check a process's configuration and all that it needs: ports, certificates and
tokens, the shard's directory and disk, the clock, the cells and their versions,
and this machine's limits. All problems are found at once, each with what to do.
With a configuration that is wrong only it and this machine are looked at.

It changes nothing (to time the disk it writes a small file beside the shard and
removes it) and may run next to the process itself.

Exit status: 0 when nothing failed (notes and warnings are no failures), 1 otherwise.`,
		Example: "  cellgate doctor gateway --config deploy/examples/gateway.yaml\n  cellgate doctor cell --config deploy/examples/cell1.yaml -o json",
		Args:    usageArgs(knownCommand),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(cmd, errors.New("say what to check: gateway, cell, agent or upgrade"))
			}
			return nil
		},
	}
	for _, k := range processes {
		cmd.AddCommand(newDoctorOf(t, k))
	}
	cmd.AddCommand(newDoctorUpgrade(t))
	return cmd
}

// processKind is a kind of process with the checks of what it needs.
type processKind struct {
	section, example string
	collect          func(*localProcess)
	checks           []check[*localProcess]
}

var processes = []processKind{
	{"gateway", "gateway", collectGateway, []check[*localProcess]{
		{name: "gateway.tls, gateway.cell_tls", run: checkFiles},
		{name: "gateway.legacy", run: checkLegacyFiles},
		{name: "ports", run: func(p *localProcess) results { return p.ports }},
		{name: "gateway.cell_tls.cert", run: checkIdentity, when: canDial},
		{name: "cells", run: checkCells, when: canDial},
	}},
	{"cell", "cell1", collectCell, []check[*localProcess]{
		{name: "cell.tls", run: checkFiles},
		{name: "ports", run: func(p *localProcess) results { return p.ports }},
		{name: "shard", run: checkDatabase, when: hasDatabase},
		{name: "shard", run: checkShardDir, when: hasDirectory},
		{name: "lock of the shard", run: checkLock, when: hasDirectory},
		{name: "clock and shard", run: checkShardClock, when: hasDirectory},
		{name: "disk", run: checkDisk, when: hasDirectory},
		{name: "disk's speed", run: checkDiskSpeed, when: hasDirectory},
	}},
	{"agent", "agent", collectAgent, []check[*localProcess]{
		{name: "agent.tls", run: checkFiles},
		{name: "ports", run: func(p *localProcess) results { return p.ports }},
		{name: "agent's " + statesCheck, run: checkAccepted, when: func(p *localProcess) bool { return p.served }},
		{name: "host", run: checkHost, when: func(p *localProcess) bool { return p.conf.Agent.Hosts == 0 }},
		{name: "agent.tls.cert", run: checkIdentity, when: canDial},
		{name: "cells", run: checkReports, when: canDial},
	}},
}

// anyProcess are the checks of every process, machine those that need no configuration.
var (
	anyProcess = check[*localProcess]{name: "telemetry", run: checkTraces}
	machine    = check[*localProcess]{name: "open files", run: checkOpenFiles}
)

// localProcess is the evidence of one process that is to run here.
type localProcess struct {
	ctx     context.Context
	now     func() time.Time
	section string
	conf    config.Config
	// server is how it is called, client how it calls others; clientAt is where that is
	// configured, role what it must be known as, dial nil when its files cannot be used.
	server   config.ServerTLS
	client   config.ClientTLS
	clientAt string
	role     security.Role
	dial     dialFunc
	// ports are the results of the addresses to listen on; served: the process runs already.
	ports  results
	served bool
	shard  shardState
}

func newDoctorOf(t terminal, k processKind) *cobra.Command {
	cmd := &cobra.Command{
		Use:     k.section,
		Short:   "Check what `cellgate " + k.section + "` needs",
		Long:    "Check what `cellgate " + k.section + "` needs, with the same file, variables and flags as it takes.",
		Example: fmt.Sprintf("  cellgate doctor %s --config deploy/examples/%s.yaml", k.section, k.example),
		Args:    usageArgs(cobra.NoArgs),
	}
	load := bindKeys(cmd, k.section, t.env)
	output := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		asJSON, err := output(cmd)
		if err != nil {
			return err
		}
		p := &localProcess{ctx: cmd.Context(), now: time.Now, section: k.section}
		p.conf, err = load()
		out := checkConfiguration(k.section, err)
		if err == nil {
			k.collect(p)
			out = append(out, examine("", p, append(k.checks[:len(k.checks):len(k.checks)], anyProcess)...)...)
		}
		return append(out, examine("", p, machine)...).print(cmd.OutOrStdout(), asJSON)
	}
	return cmd
}

func checkConfiguration(section string, err error) (out results) {
	if err == nil {
		return good("every key of %s and log is known and fits", section).named("configuration")
	}
	all := []string{err.Error()}
	if problems := (*config.Problems)(nil); errors.As(err, &problems) {
		all = problems.List
	}
	for _, p := range all {
		out = append(out, diagnose(unhealthy, p, "correct it").named("configuration")...)
	}
	return append(out, diagnose(noted, "not looked at", "correct the configuration, then run this again").named("all else of "+section)...)
}
