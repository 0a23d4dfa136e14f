package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cellgate/gateway/legacy/novadb"
	"cellgate/gateway/legacy/scratch"
	"cellgate/gateway/legacy/try"
	"cellgate/gateway/placement/mirror"
	"cellgate/gateway/rules"
	"cellgate/internal/config"
	"cellgate/internal/fault"
)

func newTry(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "try",
		Short: "Say what cellgate would do with a Nova cloud, from its databases alone",
		Long: `Read a cell database of Nova, in read-only transactions, and say what cellgate would do with
the cloud: its hosts and capacity, rows that are no hosts and filters that are redundant, each
with what to do. With the API database it also says how many instances of each flavor still fit,
and places the newest request specs again: where cellgate would put each, and where Nova did.
Each is placed on the hosts as they are now, without its own instance.

With Placement too, inventories, traits and child providers (VGPU, PCI) are Placement's; without it VCPU,
MEMORY_MB and DISK_GB are those of compute_nodes. --placement asks its API, of microversion 1.28 or newer, with
a token for the account of OS_AUTH_URL, OS_USERNAME, OS_PASSWORD, OS_PROJECT_NAME, OS_USER_DOMAIN_NAME and
OS_PROJECT_DOMAIN_NAME; --placement-database reads its database.

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
	placement := placementFlags{sides: placementSides{env: t.env}}
	f.StringVar(&placement.api, "placement", "", "URL of Placement's API, in the place of its database")
	f.BoolVar(&placement.sides.noauth, "noauth", false, "send the token admin to --placement, which has no Keystone")
	f.StringVar(&placement.url, "placement-database", "", "URL of Placement's database")
	f.StringVar(&placement.password, "placement-password-file", "", "file with the password of Placement's database")
	f.StringVar(&placement.ca, "placement-ca", "", "PEM file of the CAs of Placement's database's certificate, or system")
	uuid := f.String("cell-uuid", "", "the cell's uuid in cell_mappings; by default the one with that database, or the only one")
	confs := f.StringArray("nova-conf", nil, "nova.conf of the scheduler; again for each")
	requests := f.Int("requests", 20, "how many of the newest request specs to place again")
	html := f.String("html", "", "write the report to this HTML file too")
	timeout := f.Duration("timeout", 5*time.Minute, "how long it may take")
	form := outputFlag(cmd, "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		switch {
		case len(*dumps) > 0 && c.Database+c.API+placement.url != "":
			return usage(cmd, errors.New("--dump: stands in the place of --database, --api-database and --placement-database; give either"))
		case len(*dumps) == 0 && c.Database == "":
			return usage(cmd, errors.New("--database: say which, or give --dump"))
		case placement.api != "" && placement.url != "":
			return usage(cmd, errors.New("--placement: stands in the place of --placement-database; give either"))
		case *requests < 0:
			return usage(cmd, fmt.Errorf("--requests: %d is below 0", *requests))
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		if len(*dumps) > 0 {
			// A signal from the closed pipe of the report must not end this process before the server.
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
		if placement.api != "" {
			if placement.client, err = placement.sides.client(cmd, placement.api); err != nil {
				return err
			}
			placement.url = "" // a dump may have Placement's database too
		}
		report, err := tryCloud(ctx, c, placement, *uuid, *confs, *requests)
		if err != nil {
			return databaseFailed(flagged(cmd, err), c, placement, len(*dumps) > 0)
		}
		if *html != "" {
			err = writeReport(*html, report)
		}
		if report.Silent != "" && len(*dumps) == 0 {
			report.Odd = append(diagnose(warned, report.Silent+"; what follows is as of then", "give the database that Nova writes to, or read this as a dump of that time").named("services"), report.Odd...)
		}
		if *form != "table" {
			return errors.Join(err, printValue(cmd.OutOrStdout(), report, *form))
		}
		return errors.Join(err, show(cmd.OutOrStdout(), report.show))
	}
	return cmd
}

// placementFlags name Placement's database, or its API.
type placementFlags struct {
	url, password, ca string
	api               string
	sides             placementSides
	client            *mirror.Client
}

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
		uuid = cmp.Or(uuid, anyUUID) // nothing names the cell's uuid, and no result depends on it
	}
	g := config.Default()
	g.Gateway.NovaConf, g.Gateway.Legacy = confs, []config.LegacyCell{c}
	details := &configDetails{}
	if problems := details.fillFromNova(&g, "gateway", config.Origins{}); len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", problems[0].Path, problems[0].Problem)
	}
	database, err := readerConfig(g.Gateway.Legacy[0], uuid)
	if err != nil {
		return nil, err
	}
	if uuid == "" {
		if database.CellUUID, err = try.FindCell(ctx, database.API, c.Database); err != nil {
			return nil, err
		}
	}
	database.MaxLeftOut = 1000
	compiled, err := rules.Compile(rulesOf(g.Gateway))
	if err != nil {
		return nil, err
	}
	providers, err := placement.database()
	if err != nil {
		return nil, err
	}
	r, err := try.Run(ctx, try.Config{Database: database, Placement: providers, PlacementAPI: placement.client, Rules: compiled, Requests: requests})
	if err != nil {
		return nil, err
	}
	report := &tryReport{Report: r}
	if c.API == "" {
		report.Notes = append(report.Notes, "Without --api-database flavors, requests, zones and aggregates are not read.")
	}
	if placement.url+placement.api == "" {
		report.Notes = append(report.Notes, "Without --placement or --placement-database traits, child providers and custom classes are not known:\nwhat asks for them finds no host here.")
	}
	for i := range r.LeftOut {
		report.Odd = append(report.Odd, leftOutResult(&r.LeftOut[i])...)
	}
	for _, t := range r.Unread {
		why, do := "may not be read", t.Grant
		if do == "" {
			why, do = "is not in the API database", "give the whole API database, or a whole dump of it"
		}
		report.Odd = append(report.Odd, diagnose(warned, why+": "+unreadTables[t.Table], do).named("table "+t.Table)...)
	}
	for _, host := range r.Unprovided {
		report.Odd = append(report.Odd, diagnose(warned, "Placement has no provider of it: nothing is placed there", "start its nova-compute, which makes one").named("host "+host)...)
	}
	for _, p := range r.Sharing {
		report.Odd = append(report.Odd, diagnose(warned, "this provider shares "+strings.Join(p.Classes, ", ")+" with the hosts of its aggregates: each host has only what its own tree has", "report the shared amounts on each host").named("provider "+p.UUID)...)
	}
	for _, i := range r.Uncounted {
		report.Odd = append(report.Odd, diagnose(warned, fmt.Sprintf("this instance is on no host above, and not counted: it is on %s, node %s", i.Host, i.Node), "correct the row of its host, or of the instance").named(i.UUID)...)
	}
	if len(confs) > 0 {
		report.Odd = append(report.Odd, redundantFilters(confs, g.Gateway.Nova).named("nova.conf")...)
	}
	return report, nil
}

// unreadTables say what the report lacks without a table that it can do without.
var unreadTables = map[string]string{
	"flavors":               "what still fits is not known",
	"flavor_extra_specs":    "more may count as fitting than does",
	"request_specs":         "no request is placed again",
	"instance_groups":       "requests are placed again without the other members of their server groups",
	"instance_group_member": "requests are placed again without the other members of their server groups",
}

// databaseFailed adds the flag and the address of the database that failed to the driver's whole error.
func databaseFailed(err error, c config.LegacyCell, placement placementFlags, dumped bool) error {
	var of *try.DatabaseError
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
	flags := map[string][2]string{"cell": {"--database", c.Database}, "api": {"--api-database", c.API}, "placement": {"--placement-database", placement.url}}
	if placement.api != "" {
		flags["placement"] = [2]string{"--placement", placement.api}
	}
	at, ok := flags[flag]
	if !ok {
		return err
	}
	return &serverError{fmt.Errorf("%s %s: %w", at[0], addressIn(at[1]), err)}
}

// addressIn gives a database's URL without its user and options.
func addressIn(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		return "(a URL that cannot be read)" // not shown: it may have a password
	}
	return u.Scheme + "://" + u.Host + u.Path
}
