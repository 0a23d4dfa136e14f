package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"cellgate/gateway/legacy/importer"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/config"
	"cellgate/internal/fault"
)

func newImport(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Compare a cell's shard with its legacy database, or fill it",
		Long: `Write the hosts of Nova's compute_nodes that have no agent, and the instances on
them, into the shard of a running cell, as a gateway's importer does until the cell is
NATIVE, and say what was different before. With --dry-run nothing is written.

What is compared is what lists of hosts and claims show: facts of hosts are not. Importing
beside a gateway that imports is harmless: the newer rows count.

Exit status: 0 done, 1 a host was refused or the database failed, 2 wrong usage,
3 the cell does not answer.`,
		Example: `  cellgate import --cell cell1 --dry-run --config /etc/cellgate/gateway.yaml
  cellgate import --cell cell1 --config /etc/cellgate/gateway.yaml -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	f := cmd.Flags()
	file := f.String("config", "", "YAML file of a gateway, with gateway.cells and gateway.legacy")
	name := f.String("cell", "", "the cell, one of gateway.legacy")
	dry := f.Bool("dry-run", false, "compare only")
	timeout := f.Duration("timeout", 10*time.Minute, "how long it may take")
	limit := limitFlag(cmd, "differences")
	form := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadGateway(*file, t.env)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(c.Gateway.Legacy, func(l config.LegacyCell) bool { return l.Cell == *name })
		if at < 0 {
			return usage(cmd, fmt.Errorf("--cell: %q is none of gateway.legacy", *name))
		}
		if c.Gateway.Legacy[at].Only {
			return usage(cmd, fmt.Errorf("--cell: %s is legacy_only: its shard is in the memory of each gateway", *name))
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		i := &importing{legacy: c.Gateway.Legacy[at], lines: limit.lines(), out: cmd.OutOrStdout(), progress: newProgress(t.err)}
		cell := cellOf(c.Gateway, *name)
		if i.cell, err = dialReplicas(c.Gateway.CellTLS, cell); err != nil {
			return err
		}
		defer func() { _ = i.cell.Close() }() // its calls are over
		conf, err := readerConfig(i.legacy, cell.UUID)
		if err != nil {
			return err
		}
		if i.reader, err = novadb.Open(ctx, conf); err != nil {
			return err
		}
		defer func() { _ = i.reader.Close() }() // it has been read
		err = i.run(ctx, *dry, *form == "json")
		if fault.KindOf(err) == fault.CellUnavailable && novadb.TroubleOf(err) == "" && cmd.Context().Err() == nil {
			return &unreachableError{addr: fmt.Sprint(cell.Replicas), why: "cell " + *name + ": " + wording(err), err: err}
		}
		return err
	}
	return cmd
}

// importing has what one run of the command works with.
type importing struct {
	legacy   config.LegacyCell
	cell     *replicas
	reader   *novadb.Reader
	lines    int
	out      io.Writer
	progress func(what string, done, all int)
	x        *novadb.Snapshot
}

func (i *importing) importer() (*importer.Importer, error) {
	return importer.New(importer.Config{Cell: i.legacy.Cell, MaxLeftOut: i.lines, Progress: i.progress})
}

// imported is the command's result as JSON.
type imported struct {
	Cell   string                `json:"cell"`
	At     time.Time             `json:"at"`
	Counts map[importer.What]int `json:"counts"`
	Lines  []importer.Line       `json:"differences"`
	// Written is unset when the command wrote nothing.
	Written *importer.Report `json:"written,omitempty"`
}

func (i *importing) run(ctx context.Context, dry, asJSON bool) error {
	var err error
	if i.x, err = i.reader.Load(ctx); err != nil {
		return err
	}
	m, err := i.importer()
	if err != nil {
		return err
	}
	d, err := m.Compare(ctx, i.x, i.cell)
	if err != nil {
		return err
	}
	compared := imported{Cell: i.legacy.Cell, At: d.At, Counts: d.Counts, Lines: append([]importer.Line{}, d.Lines...)}
	if !dry {
		if down := cmp.Or(i.legacy.ServiceDownTime, time.Minute); i.x.Silent(down) {
			return fmt.Errorf("%s; nothing is imported from it", i.x.WhySilent(down))
		}
		total, err := i.fill(ctx)
		if err != nil {
			return err
		}
		compared.Written = &total
	}
	if asJSON {
		err = encode(i.out, compared)
	} else {
		err = show(i.out, compared.show)
	}
	if compared.Written != nil && compared.Written.Refused > 0 {
		err = errors.Join(err, fmt.Errorf("the cell refused %s", counted(compared.Written.Refused, "host")))
	}
	return err
}

// fillEvery is the pause between two steps of an import.
const fillEvery = 250 * time.Millisecond

// fill makes steps until two in a row leave nothing waiting, so that instances count that came with the
// first.
func (i *importing) fill(ctx context.Context) (total importer.Report, err error) {
	m, err := i.importer()
	if err != nil {
		return total, err
	}
	for idle := 0; idle < 2; {
		r, err := m.Step(ctx, i.x, i.cell)
		add(&total, &r)
		if err != nil {
			return total, err
		}
		if idle++; r.Waiting > 0 {
			idle = 0
		}
		select {
		case <-ctx.Done():
			return total, ctx.Err()
		case <-time.After(fillEvery):
		}
		if i.x, err = i.reader.Refresh(ctx, i.x); err != nil {
			return total, err
		}
	}
	return total, nil
}

// add adds a step's counts to the total. All other values of the total become those of this step.
func add(t, r *importer.Report) {
	sent, taken, same, agents, refused := t.Sent, t.Taken, t.Unchanged, t.OwnedByAgents, t.Refused
	adopted, confirmed, released, conflicts, over, kept := t.Adopted, t.Confirmed, t.Released, t.ClaimedElsewhere, t.Overcommitted, t.NewerClaimsSkipped
	*t = *r
	t.Sent, t.Taken, t.Unchanged, t.OwnedByAgents, t.Refused = t.Sent+sent, t.Taken+taken, t.Unchanged+same, t.OwnedByAgents+agents, t.Refused+refused
	t.Adopted, t.Confirmed, t.Released, t.ClaimedElsewhere, t.Overcommitted, t.NewerClaimsSkipped = t.Adopted+adopted, t.Confirmed+confirmed, t.Released+released, t.ClaimedElsewhere+conflicts, t.Overcommitted+over, t.NewerClaimsSkipped+kept
}

// summary has the rows of the table in order.
var summary = []struct {
	what importer.What
	text string
}{
	{importer.HostNew, "hosts: new"},
	{importer.HostChanged, "hosts: changed"},
	{importer.HostEqual, "hosts: equal"},
	{importer.HostAgents, "hosts: left to agents"},
	{importer.HostGone, "hosts: in the shard without a row"},
	{importer.HostLeftOut, "hosts: left out"},
	{importer.InstanceAdopted, "instances: to adopt"},
	{importer.InstanceConfirmed, "instances: to confirm"},
	{importer.InstanceEqual, "instances: equal"},
	{importer.InstanceDiffers, "instances: of other amounts than their claims"},
	{importer.InstanceReleased, "instances: to release"},
	{importer.InstanceConflict, "instances: claimed elsewhere"},
	{importer.InstanceWithoutClaim, "instances: on agents' hosts, without a claim"},
	{importer.InstanceLeftOut, "instances: left out"},
	{importer.ClaimWithoutInstance, "claims: of instances without a row"},
	{importer.OverCapacity, "over capacity"},
}

func (s *imported) show(p *page) {
	t := p.table("CELL "+s.Cell, "NUMBER")
	different := 0
	for _, row := range summary {
		t.row(row.text, s.Counts[row.what])
		if row.what != importer.HostEqual && row.what != importer.InstanceEqual {
			different += s.Counts[row.what]
		}
	}
	t.print()
	lines := p.table("DIFFERENCE", "HOST", "UUID", "WHAT")
	for _, l := range s.Lines {
		lines.row(l.What, l.Host, l.UUID, l.Detail)
	}
	lines.printBelow()
	if more := different - len(s.Lines); more > 0 && len(s.Lines) > 0 {
		p.printf("and %d more; --limit 0 shows all\n", more)
	}
	if r := s.Written; r != nil {
		p.printf("\nsent %d hosts: %d written, %d unchanged, %d left to agents, %d refused; instances: %d adopted, %d confirmed, %d released, %d conflicting\n",
			r.Sent, r.Taken, r.Unchanged, r.OwnedByAgents, r.Refused, r.Adopted, r.Confirmed, r.Released, r.ClaimedElsewhere)
		return
	}
	p.printf("\nnothing was written\n")
}

// newProgress gives a function that prints how far work is, at most once in two seconds. It prints
// nothing before two seconds have passed.
func newProgress(w io.Writer) func(what string, done, all int) {
	last := time.Now()
	return func(what string, done, all int) {
		if time.Since(last) < 2*time.Second {
			return
		}
		last = time.Now()
		if all > 0 {
			_, _ = fmt.Fprintf(w, "%s: %d of %d\n", what, done, all) // progress is no result
			return
		}
		_, _ = fmt.Fprintf(w, "%s: %d\n", what, done)
	}
}
