package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellgate/internal/config"
	"cellgate/internal/security"
)

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
	cmd.AddCommand(
		newDoctorOf(t, "gateway", (*doctor).gateway),
		newDoctorOf(t, "cell", (*doctor).cell),
		newDoctorOf(t, "agent", (*doctor).agent),
		newDoctorUpgrade(t),
	)
	return cmd
}

func newDoctorOf(t terminal, section string, examine func(*doctor, config.Config)) *cobra.Command {
	cmd := &cobra.Command{
		Use:     section,
		Short:   "Check what `cellgate " + section + "` needs",
		Long:    "Check what `cellgate " + section + "` needs, with the same file, variables and flags as it takes.",
		Example: fmt.Sprintf("  cellgate doctor %s --config deploy/examples/%s.yaml", section, map[string]string{"gateway": "gateway", "cell": "cell1", "agent": "agent"}[section]),
		Args:    usageArgs(cobra.NoArgs),
	}
	load := bindKeys(cmd, section, t.env)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		asJSON, err := output(cmd)
		if err != nil {
			return err
		}
		d := &doctor{ctx: cmd.Context(), now: time.Now}
		c, err := load()
		if d.configuration(section, err) {
			examine(d, c)
			d.traces(c.Telemetry)
		}
		d.machine(section)
		return d.tell(cmd.OutOrStdout(), asJSON)
	}
	return cmd
}

// The verdicts of a diagnosis.
const (
	found     = "ok"
	noted     = "note"
	warned    = "warn"
	unhealthy = "FAIL"
)

// diagnosis is one thing that was looked at.
type diagnosis struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	// What was seen; Do is what to do about it.
	What string `json:"what"`
	Do   string `json:"do,omitempty"`
}

// doctor collects diagnoses.
type doctor struct {
	ctx  context.Context
	now  func() time.Time
	rows []diagnosis
	// client is how the process calls others, clientAt where that is configured,
	// and role what it must be known as.
	client   config.ClientTLS
	clientAt string
	role     security.Role
}

func (d *doctor) add(check, status, what, do string) {
	d.rows = append(d.rows, diagnosis{Check: check, Status: status, What: what, Do: do})
}

func (d *doctor) ok(check, format string, args ...any) {
	d.add(check, found, fmt.Sprintf(format, args...), "")
}

// configuration is true when there is one to go on with.
func (d *doctor) configuration(section string, err error) bool {
	var problems *config.Problems
	switch {
	case err == nil:
		d.ok("configuration", "every key of %s and log is known and fits", section)
		return true
	case errors.As(err, &problems):
		for _, p := range problems.List {
			d.add("configuration", unhealthy, p, "correct it")
		}
	default:
		d.add("configuration", unhealthy, err.Error(), "correct it")
	}
	d.add("all else of "+section, noted, "not looked at", "correct the configuration, then run this again")
	return false
}

var errUnhealthy = errors.New("something failed; the lines above say what to do")

// tell prints the diagnoses; its error says that one failed.
func (d *doctor) tell(w io.Writer, asJSON bool) error {
	count := map[string]int{}
	for _, r := range d.rows {
		count[r.Status]++
	}
	if asJSON {
		raw, err := json.Marshal(struct {
			OK     bool        `json:"ok"`
			Checks []diagnosis `json:"checks"`
		}{count[unhealthy] == 0, d.rows})
		if err == nil {
			err = indent(w, raw)
		}
		if err != nil {
			return err
		}
	} else {
		t := newTable(w, "CHECK", "STATUS", "WHAT", "WHAT TO DO")
		for _, r := range d.rows {
			t.row(r.Check, r.Status, strings.ReplaceAll(r.What, "\n", "; "), r.Do)
		}
		if err := t.end(); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%d ok, %s, %s, %s\n", count[found],
			counted(count[noted], "note"), counted(count[warned], "warning"), counted(count[unhealthy], "failure")); err != nil {
			return err
		}
	}
	if count[unhealthy] > 0 {
		return errUnhealthy
	}
	return nil
}

// counted says how many of a thing there are.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
