package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"cellgate/internal/config"
)

// The statuses of a result.
const (
	found     = "ok"
	noted     = "note"
	warned    = "warn"
	unhealthy = "FAIL"
)

// result is one line of a report: what doctor saw, and what to do about it.
type result struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	What   string `json:"what"`
	Do     string `json:"do,omitempty"`
}

type results []result

// diagnose makes one result. examine gives it the name of its check.
func diagnose(status, what, do string) results {
	return results{{Status: status, What: what, Do: do}}
}

func good(format string, args ...any) results {
	return diagnose(found, fmt.Sprintf(format, args...), "")
}

// each makes a failure of every error that err joins.
func each(err error, do string) (out results) {
	for _, e := range split(err) {
		out = append(out, diagnose(unhealthy, chain(e), do)...)
	}
	return out
}

// named sets the object of those results that have none. It stands in place of the check's name.
func (r results) named(object string) results {
	for i := range r {
		r[i].Check = cmp.Or(r[i].Check, object)
	}
	return r
}

// check is one question about the evidence E, which doctor gathered before. run must not change the
// evidence, and gives nothing when it is missing.
type check[E any] struct {
	name string
	run  func(E) results
}

// examine runs checks in their order, and begins the name of every result with prefix. It gives at most
// most results of each check and status, and counts the others.
func examine[E any](prefix string, evidence E, most int, checks []check[E]) (out results) {
	for _, c := range checks {
		count, last := map[string]int{}, map[string]result{}
		for _, r := range c.run(evidence).named(c.name) {
			r.Check = prefix + r.Check
			if count[r.Status]++; count[r.Status] <= most {
				out = append(out, r)
			}
			last[r.Status] = r
		}
		for _, status := range []string{unhealthy, warned, noted} {
			if more := count[status] - most; more > 0 {
				out = append(out, result{prefix + c.name, status, fmt.Sprintf("and %d more", more), last[status].Do})
			}
		}
	}
	return out
}

var errUnhealthy = errors.New("something failed; the lines above say what to do")

// print writes the report. It gives an error when a check failed.
func (r results) print(w io.Writer, form string) error {
	count := map[string]int{}
	for _, one := range r {
		count[one.Status]++
	}
	var err error
	if form != "table" {
		err = printValue(w, map[string]any{"ok": count[unhealthy] == 0, "checks": r}, form)
	} else {
		err = show(w, func(p *page) {
			p.width = pageWidth
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
	cmd := group(&cobra.Command{
		Use:   "doctor",
		Short: "Check whether a process can run here, and what it needs",
		Long: `Check a process's configuration and all that it needs: ports, certificates and
tokens, the shard's directory and disk, the clock, the cells, and this machine's
limits. All problems are found at once, each with what to do.
With a configuration that is wrong only it and this machine are looked at.

It changes nothing (to time the disk it writes a small file beside the shard and
removes it) and may run next to the process itself.

Exit status: 0 when nothing failed (notes and warnings are no failures), 1 otherwise.`,
		Example: "  cellgate doctor gateway --config deploy/examples/gateway.yaml\n  cellgate doctor cell --config deploy/examples/cell1.yaml -o json",
	})
	for _, d := range doctors {
		cmd.AddCommand(newDoctorOf(t, d))
	}
	cmd.AddCommand(newDoctorUpgrade(t))
	return cmd
}

// doctor examines one kind of process.
type doctor struct {
	section, example string
	gather           func(*localProcess)
	checks           []check[*localProcess]
}

// openFiles is the check that needs no configuration.
var openFiles = check[*localProcess]{"open files", checkOpenFiles}

var doctors = []doctor{
	{"gateway", "gateway", gatherGateway, []check[*localProcess]{
		{"gateway.tls, gateway.cell_tls", checkFiles},
		{"gateway.legacy", func(p *localProcess) results {
			return each(legacyFiles(p.conf.Gateway), "put the file there, or correct the path: a gateway does not start without it")
		}},
		{"gateway.bus, gateway.placement", checkServicesUse},
		{"ports", checkPorts},
		{"gateway.cell_tls.cert", checkIdentity},
		{"cells", checkCells},
		openFiles,
	}},
	{"cell", "cell1", gatherCell, []check[*localProcess]{
		{"cell.tls", checkFiles},
		{"ports", checkPorts},
		{"shard", examineShard},
		openFiles,
	}},
	{"agent", "agent", gatherAgent, []check[*localProcess]{
		{"agent.tls", checkFiles},
		{"ports", checkPorts},
		{"host", checkHost},
		{"agent.tls.cert", checkIdentity},
		{"cells", checkReports},
		openFiles,
	}},
}

func newDoctorOf(t terminal, d doctor) *cobra.Command {
	cmd := &cobra.Command{
		Use:     d.section,
		Short:   "Check what `cellgate " + d.section + "` needs",
		Long:    "Check what `cellgate " + d.section + "` needs, with the same file, variables and flags as it takes.",
		Example: fmt.Sprintf("  cellgate doctor %s --config deploy/examples/%s.yaml", d.section, d.example),
		Args:    usageArgs(cobra.NoArgs),
	}
	load := bindKeysWithDetails(cmd, d.section, t.env)
	form := outputFlag(cmd, "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p := &localProcess{ctx: cmd.Context()}
		checks := d.checks
		var err error
		if p.conf, p.details, err = load(); err == nil {
			d.gather(p)
		} else {
			checks = []check[*localProcess]{openFiles}
		}
		return append(checkConfiguration(d.section, err), examine("", p, math.MaxInt, checks)...).print(cmd.OutOrStdout(), *form)
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
