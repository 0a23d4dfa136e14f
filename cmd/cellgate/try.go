package main

import (
	"cmp"
	"context"
	_ "embed" // the report
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cellgate/gateway/legacy/novadb"
	"cellgate/gateway/legacy/scratch"
	"cellgate/gateway/legacy/trial"
	"cellgate/gateway/rules"
	"cellgate/internal/config"
	"cellgate/internal/fault"
)

//go:embed try.html
var tryHTML string

var tryTemplate = template.Must(template.New("try").Parse(tryHTML))

// tryReport is what was tried, with the findings that have something to do about them.
type tryReport struct {
	*trial.Report
	Odd results `json:"odd"`
	// Notes say what the report lacks for want of a database.
	Notes []string `json:"notes,omitempty"`
}

func newTry(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "try",
		Short: "Say what cellgate would do with a Nova cloud, from its databases alone",
		Long: `Read a cell database of Nova, in read-only transactions, and say what cellgate would do with
the cloud: its hosts and capacity, rows that are no hosts and filters that are redundant, each
with what to do. With the API database it also says how many instances of each flavor still fit,
and places the newest request specs again: where cellgate would put each, and where Nova did.
Each is placed on the hosts as they are now, without its own instance.

With Placement's database too, inventories, traits and child providers (VGPU, PCI) are Placement's;
without it VCPU, MEMORY_MB and DISK_GB are those of compute_nodes.

Nothing is written to the databases, and no other process is needed. Dumps (--dump, by
mariadb-dump, mysqldump or pg_dump, plain or gzip) are loaded into a database server in a temporary
folder, which ends with the command: it needs MariaDB's or PostgreSQL's server programs. Services
are up or down in a dump as they were at the newest heartbeat in it:

  cellgate try --dump nova_cell1.sql.gz --dump nova_api.sql.gz --dump placement.sql.gz`,
		Example: `  cellgate try --database postgres://nova@127.0.0.1:5432/nova_cell1 --html report.html
  cellgate try --database postgres://nova@127.0.0.1:5432/nova_cell1 --api-database postgres://nova@127.0.0.1:5432/nova_api --cell-uuid c0000000-0000-4000-8000-000000000001 --nova-conf deploy/examples/nova.conf`,
		Args: usageArgs(cobra.NoArgs),
	}
	f := cmd.Flags()
	c := config.LegacyCell{Cell: "try"}
	f.StringVar(&c.Database, "database", "", "URL of Nova's cell database, mysql:// or postgres://")
	f.StringVar(&c.PasswordFile, "password-file", "", "file with the password of the cell database")
	f.StringVar(&c.CA, "ca", "", "PEM file of the CAs of the cell database's certificate, or system")
	f.StringVar(&c.API, "api-database", "", "URL of Nova's API database")
	f.StringVar(&c.APIPassword, "api-password-file", "", "file with the password of the API database")
	f.StringVar(&c.APICA, "api-ca", "", "PEM file of the CAs of the API database's certificate, or system")
	dumps := f.StringArray("dump", nil, "dump of the databases, in the place of their URLs; again for each file")
	var placement placementFlags
	f.StringVar(&placement.url, "placement-database", "", "URL of Placement's database")
	f.StringVar(&placement.password, "placement-password-file", "", "file with the password of Placement's database")
	f.StringVar(&placement.ca, "placement-ca", "", "PEM file of the CAs of Placement's database's certificate, or system")
	uuid := f.String("cell-uuid", "", "the cell's uuid in cell_mappings; by default the one with that database, or the only one")
	confs := f.StringArray("nova-conf", nil, "nova.conf of the scheduler; again for each")
	requests := f.Int("requests", 20, "how many of the newest request specs to place again")
	html := f.String("html", "", "write the report to this HTML file too")
	timeout := f.Duration("timeout", 5*time.Minute, "how long it may take")
	output := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		asJSON, err := output(cmd)
		switch {
		case err != nil:
			return err
		case len(*dumps) > 0 && c.Database+c.API+placement.url != "":
			return usage(cmd, errors.New("--dump: stands in the place of --database, --api-database and --placement-database; give either"))
		case len(*dumps) == 0 && c.Database == "":
			return usage(cmd, errors.New("--database: say which, or give --dump"))
		case *requests < 0:
			return usage(cmd, fmt.Errorf("--requests: %d is below 0", *requests))
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		if len(*dumps) > 0 {
			// Who closes the pipe of the report must not leave the server behind.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			loaded, failed := scratch.Load(ctx, *dumps, func(file string, done, total int64) {
				fmt.Fprintf(t.err, "loading %s: %d %% of %d MiB\n", filepath.Base(file), done*100/max(total, 1), total>>20)
			})
			if failed != nil {
				return failed
			}
			defer func() { err = errors.Join(err, loaded.Close()) }()
			c.Database, c.API, placement.url = loaded.Cell, loaded.API, loaded.Placement
		}
		report, err := tryCloud(ctx, c, placement, *uuid, *confs, *requests)
		if err != nil {
			return databaseFailed(flagged(cmd, err), c, placement, len(*dumps) > 0)
		}
		if *html != "" {
			err = writeReport(*html, report)
		}
		if asJSON {
			return errors.Join(err, encode(cmd.OutOrStdout(), report))
		}
		return errors.Join(err, show(cmd.OutOrStdout(), report.show))
	}
	return cmd
}

// placementFlags say where Placement's database is.
type placementFlags struct{ url, password, ca string }

func (p placementFlags) database() (d novadb.Database, err error) {
	d = novadb.Database{URL: p.url, PasswordFile: p.password}
	if err = passwordFile(p.password); err != nil {
		return d, fmt.Errorf("--placement-password-file: %w", err)
	}
	if d.TLS, err = databaseTLS(p.url, p.ca); err != nil {
		return d, fmt.Errorf("--placement-ca: %w", err)
	}
	return d, nil
}

func tryCloud(ctx context.Context, c config.LegacyCell, placement placementFlags, uuid string, confs []string, requests int) (*tryReport, error) {
	if c.API == "" {
		uuid = cmp.Or(uuid, anyUUID) // nothing says which it is, and nothing is decided by it
	}
	database, err := readerConfig(c, uuid)
	if err != nil {
		return nil, err
	}
	if uuid == "" {
		if database.CellUUID, err = trial.FindCell(ctx, database.API, c.Database); err != nil {
			return nil, err
		}
		if database.CellUUID == "" {
			return nil, errors.New("--cell-uuid: say which; cell_mappings has several cells, and not one of them has this database")
		}
	}
	database.MaxLeftOut = 1000
	g := config.Default()
	g.Gateway.NovaConf = confs
	told := &told{}
	if problems := told.fillFromNova(&g, "gateway", config.Origins{}); len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", problems[0].Path, problems[0].Problem)
	}
	compiled, err := rules.Compile(rulesOf(g.Gateway))
	if err != nil {
		return nil, err
	}
	providers, err := placement.database()
	if err != nil {
		return nil, err
	}
	r, err := trial.Run(ctx, trial.Config{Database: database, Placement: providers, Rules: compiled, Requests: requests})
	if err != nil {
		return nil, err
	}
	report := &tryReport{Report: r}
	if c.API == "" {
		report.Notes = append(report.Notes, "Without --api-database flavors, requests, zones and aggregates are not read.")
	}
	if placement.url == "" {
		report.Notes = append(report.Notes, "Without --placement-database traits, child providers and custom classes are not known:\nwhat asks for them finds no host here.")
	}
	for i := range r.LeftOut {
		report.Odd = append(report.Odd, leftOutResult(&r.LeftOut[i])...)
	}
	for _, t := range r.Unread {
		report.Odd = append(report.Odd, diagnose(warned, unreadTables[t.Table], t.Grant).named("table "+t.Table)...)
	}
	for _, host := range r.Unprovided {
		report.Odd = append(report.Odd, diagnose(warned, "Placement has no provider of it: nothing is placed there", "start its nova-compute, which makes one").named("host "+host)...)
	}
	if len(confs) > 0 {
		report.Odd = append(report.Odd, redundantFilters(confs, g.Gateway.Nova).named("nova.conf")...)
	}
	return report, nil
}

// unreadTables say what is missing without the tables that a trial can do without.
var unreadTables = map[string]string{
	"flavors":            "may not be read: what still fits is not known",
	"flavor_extra_specs": "may not be read: more may be said to fit than does",
	"request_specs":      "may not be read: no request is placed again",
}

// databaseFailed names the flag and the address of the database that failed, with all that its driver says.
func databaseFailed(err error, c config.LegacyCell, placement placementFlags, dumped bool) error {
	var of *trial.DatabaseError
	var known *fault.Error
	flag := ""
	switch {
	case dumped:
		return err
	case errors.As(err, &of):
		flag, err = of.Database, of.Err
	case errors.As(err, &known):
		flag = known.Metadata["database"]
	}
	at, ok := map[string][2]string{"cell": {"--database", c.Database}, "api": {"--api-database", c.API}, "placement": {"--placement-database", placement.url}}[flag]
	if !ok {
		return err
	}
	return &serverError{fmt.Errorf("%s %s: %w", at[0], addressIn(at[1]), err)}
}

// addressIn is a database's URL without its user and options.
func addressIn(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		return "(a URL that cannot be read)" // not shown: it may have a password
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// oddKind are odd rows of a kind.
type oddKind struct {
	What, Do, Rows string
}

// Kinds are the odd rows by kind, in the order of the first of each; a remedy that names a row is that of the first.
func (r *tryReport) Kinds() (kinds []oddKind) {
	const shown = 5
	rows := map[string][]string{}
	first := map[string]result{}
	var order []string
	for _, o := range r.Odd {
		kind, _, _ := strings.Cut(o.What, ": ")
		if rows[kind] == nil {
			order, first[kind] = append(order, kind), o
		}
		rows[kind] = append(rows[kind], o.Check)
	}
	for _, kind := range order {
		names, of := rows[kind], oddKind{What: first[kind].What, Do: first[kind].Do}
		if n := len(names); n > 1 {
			of.What = fmt.Sprintf("%d: %s", n, of.What)
			if n > shown {
				names = append(names[:shown:shown], fmt.Sprintf("and %d more", n-shown))
			}
		}
		of.Rows = strings.Join(names, ", ")
		kinds = append(kinds, of)
	}
	return kinds
}

func writeReport(file string, r *tryReport) error {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return errors.Join(tryTemplate.Execute(f, r), f.Close())
}

func (r *tryReport) show(p *page) {
	p.printf("%d hosts: %d available, %d disabled, %d down; %d instances; read in %v, and nothing was written.\nServices are up or down as of %s UTC.\n\n",
		r.Hosts, r.Available, r.Disabled, r.Down, r.Instances, r.Took.Round(time.Millisecond), r.At.UTC().Format(time.DateTime))
	for _, n := range r.Notes {
		p.printf("%s\n", n)
	}
	classes := p.table("CLASS", "USED", "CAPACITY")
	for _, c := range r.Classes {
		classes.row(c.Name, c.Used, c.Capacity)
	}
	classes.print()
	p.width = pageWidth
	odd := p.table("ODD", "WHAT", "WHAT TO DO")
	for _, o := range r.Kinds() {
		odd.row(o.Rows, o.What, o.Do)
	}
	odd.printBelow()
	flavors := p.table("FLAVOR", "VCPU", "MEMORY MIB", "DISK GB", "STILL FIT")
	for _, f := range r.Flavors {
		flavors.row(f.Name, f.VCPUs, f.MemoryMB, f.DiskGB, f.Fits)
	}
	flavors.printBelow()
	for _, f := range r.Flavors {
		if f.Problem != "" {
			p.printf("%s: %s\n", f.Name, printable(f.Problem))
		}
	}
	replays := p.table("INSTANCE", "NOVA", "CELLGATE", "RANK OF NOVA'S", "PASSED", "TOOK")
	var problems []string
	var took []time.Duration
	same := 0
	for _, x := range r.Replays {
		rank := ""
		if x.Rank > 0 {
			rank = fmt.Sprint(x.Rank)
		}
		replays.row(x.Instance, x.Nova, x.Chosen, rank, x.Passed, x.Took.Round(time.Microsecond))
		if x.Problem != "" {
			problems = append(problems, x.Instance+": "+printable(x.Problem))
		} else if took = append(took, x.Took); x.Rank == 1 {
			same++
		}
	}
	if replays.printBelow(); len(took) > 0 {
		slices.Sort(took)
		p.printf("%d of %d placed again, each alone on the hosts as they are now: %d on Nova's host; median %v\n", len(took), len(r.Replays), same, took[len(took)/2].Round(time.Microsecond))
	}
	p.printf("%s", strings.Join(append(problems, ""), "\n"))
}
