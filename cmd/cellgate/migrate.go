package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellgate/internal/config"
	"cellgate/shard/sqlshard"
)

func newMigrate() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "migrate",
		Short: "Make the tables of a shard in a database, or bring them up to date",
		Long: `Make the tables of a shard in a database, bring them up to date, or say where they
are. A cell checks them when it starts and refuses those of another version, unless
cell.store_migrate lets it bring them up to date itself. There is no way back: before
an upgrade, make a backup.`,
		Example: "  cellgate migrate status --store postgres://cellgate@127.0.0.1:5432/cell1\n  cellgate migrate up --store postgres://cellgate@127.0.0.1:5432/cell1",
	})
	cmd.AddCommand(
		newMigrateOf("up", "Make the database, and the tables that it lacks; several may run at once", migrateUp),
		newMigrateOf("status", "Say which tables a database has and lacks; changes nothing", migrateStatus),
	)
	return cmd
}

func newMigrateOf(name, short string, do func(ctx context.Context, o sqlshard.Options, w io.Writer, asJSON bool) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Args: usageArgs(cobra.NoArgs),
		Example: "  cellgate migrate " + name + " --store postgres://cellgate@127.0.0.1:5432/cell1 --store-password-file /run/secrets/cell1",
	}
	store := cmd.Flags().String("store", "", "database of the shard, postgres:// or cockroach://")
	password := cmd.Flags().String("store-password-file", "", "file with the password of the database")
	insecure := cmd.Flags().Bool("insecure", false, "allow a database elsewhere that is reached without TLS")
	timeout := cmd.Flags().Duration("timeout", 10*time.Minute, "how long it may take")
	form := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *store == "" {
			return usage(cmd, errors.New("--store: say which database"))
		}
		if problems := config.StoreProblems(*store, true, *insecure); len(problems) > 0 {
			return usage(cmd, fmt.Errorf("--store: %s", strings.ReplaceAll(strings.Join(problems, "; "), "store_password_file of a cell", "--store-password-file")))
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		return do(ctx, sqlshard.Options{Cell: "migrate", URL: *store, PasswordFile: *password}, cmd.OutOrStdout(), *form == "json")
	}
	return cmd
}

func migrateUp(ctx context.Context, o sqlshard.Options, w io.Writer, asJSON bool) error {
	o.Create = true
	done, err := sqlshard.Migrate(ctx, o)
	if asJSON {
		return errors.Join(encode(w, map[string]any{"applied": append([]string{}, done...)}), err)
	}
	for _, name := range done {
		_, werr := fmt.Fprintf(w, "applied %s\n", name)
		err = errors.Join(err, werr)
	}
	if err == nil && len(done) == 0 {
		_, err = fmt.Fprintln(w, "up to date")
	}
	return err
}

func migrateStatus(ctx context.Context, o sqlshard.Options, w io.Writer, asJSON bool) error {
	st, err := sqlshard.ReadStatus(ctx, o)
	if err != nil {
		return err
	}
	type step struct {
		Name string `json:"name"`
		At   string `json:"applied_at,omitempty"`
	}
	steps := []step{}
	for _, a := range st.Applied {
		steps = append(steps, step{fmt.Sprintf("%04d_%s", a.Version, a.Name), a.At.UTC().Format(time.RFC3339)})
	}
	for _, name := range st.Pending {
		steps = append(steps, step{Name: name})
	}
	if asJSON {
		return encode(w, map[string]any{"server": st.Server, "steps": steps})
	}
	return show(w, func(p *page) {
		p.printf("%s\n", st.Server)
		t := p.table("STEP", "APPLIED")
		for _, s := range steps {
			t.row(s.Name, cmp.Or(s.At, "no"))
		}
		t.print()
	})
}
