package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellgate/internal/config"
	"cellgate/internal/storebench"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
	"cellgate/shard/sqlshard"
)

// storeBench has the flags of bench store.
type storeBench struct {
	data, store, password      string
	insecure, single           bool
	callers, schedulers, hosts []int
	full                       int
	order, partition, claims   []string
	duration                   time.Duration
}

// storeReport is what bench store measured, and where.
type storeReport struct {
	benchMachine
	Store string               `json:"store"`
	Runs  []*storebench.Result `json:"runs"`
}

func newBenchStore(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Measure claims a second on a store, without cells and gateways",
		Long: `Claim with many callers, each with one claim under way, at schedulers with a
view of the hosts of their own, and print how many claims a second a store takes:
PostgreSQL or CockroachDB, or Pebble on a disk. Each combination of the lists is a
run on a new shard, and a row. A run checks what it left.

On a server, each run makes a database cellgate_bench_..., and drops it.

A host takes 50 claims; when all are full, others are registered. Orders:
pack-first fills one host after the other, pack-among the first few as gateways do,
spread the emptiest. Partitions: with modulo a scheduler picks from its part while
that has room; with rendezvous the host's owner makes the claim, as in gateways.
Claims: locks is the product's way, in batches; swap reads without locks and swaps
the host's generation (PostgreSQL only); -single is one claim a transaction; with
computes the compute host claims.

REFUSALS are attempts that found a host full, CONFLICTS transactions that ran again,
BATCH is claims a transaction, CPU the processor time of this process a claim. WRONG
are claims refused that would have fitted, over-allocations, and claims lost or made
twice.`,
		Example: `  cellgate bench store --data . --duration 3s
  cellgate bench store --store postgres://postgres@127.0.0.1:5432/ --schedulers 8 --claims locks,swap --duration 3s
  cellgate bench store --callers 64,1 --schedulers 8,1 --partition none,modulo,rendezvous --one-factor --duration 3s -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	var b storeBench
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&b.store, "store", "", "server to measure, postgres:// or cockroach://, without a database (default: Pebble)")
	f.StringVar(&b.password, "store-password-file", "", "file with the password of the server")
	f.BoolVar(&b.insecure, "insecure", false, "allow a server elsewhere that is reached without TLS")
	f.StringVar(&b.data, "data", "", "directory on the disk to measure (default: the one for temporary files); with --store, only its fsync is timed")
	f.IntSliceVar(&b.callers, "callers", []int{64}, "callers at once")
	f.IntSliceVar(&b.schedulers, "schedulers", []int{1, 8}, "schedulers; a server has up to four connections of each")
	f.IntSliceVar(&b.hosts, "hosts", []int{800}, "hosts")
	f.IntVar(&b.full, "full", 0, "how many of the hosts are full from the beginning")
	listFlag := func(to *[]string, name string, known, unset []string, help string) {
		f.StringSliceVar(to, name, unset, help+": "+strings.Join(known, ", "))
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that has a completion
	}
	listFlag(&b.order, "order", storebench.Orders, storebench.Orders, "orders in which hosts are picked")
	listFlag(&b.partition, "partition", storebench.Partitions, []string{storebench.Unshared}, "how schedulers share the hosts")
	listFlag(&b.claims, "claims", storebench.Claims, []string{storebench.Locks}, "how claims are made")
	f.BoolVar(&b.single, "one-factor", false, "only the combinations in which at most one list is not at its first value")
	f.DurationVar(&b.duration, "duration", 5*time.Second, "how long a run makes claims")
	form := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := b.check(); err != nil {
			return usage(cmd, err)
		}
		report, err := b.run(cmd.Context(), t)
		switch {
		case report == nil || len(report.Runs) == 0:
			return err
		case *form == "json":
			err = errors.Join(err, encode(t.out, report))
		default:
			err = errors.Join(err, show(t.out, func(p *page) { b.show(p, report) }))
		}
		for _, r := range report.Runs {
			if r.Wrong > 0 {
				err = errors.Join(err, fmt.Errorf("%s: %s", b.name(r.Setting), strings.Join(append(r.Problems, counted(r.Wrong-len(r.Problems), "host")+" refused claims that would have fitted"), "; ")))
			}
		}
		return err
	}
	return cmd
}

func (b *storeBench) check() error {
	for name, list := range map[string][]int{"callers": b.callers, "schedulers": b.schedulers, "hosts": b.hosts} {
		if len(list) == 0 || slices.Min(list) < 1 {
			return fmt.Errorf("--%s: name numbers above 0", name)
		}
	}
	for _, l := range []struct {
		flag        string
		list, known []string
	}{{"--order", b.order, storebench.Orders}, {"--partition", b.partition, storebench.Partitions}, {"--claims", b.claims, storebench.Claims}} {
		if len(l.list) == 0 {
			return fmt.Errorf("%s: name at least one of %s", l.flag, strings.Join(l.known, ", "))
		}
		for _, v := range l.list {
			if !slices.Contains(l.known, v) {
				return noneOf(l.flag, v, l.known)
			}
		}
	}
	settings := b.settings()
	one := func(is func(storebench.Setting) bool) bool { return slices.ContainsFunc(settings, is) }
	switch {
	case b.duration <= 0:
		return errors.New("--duration must be above 0")
	case b.full < 0 || b.full >= slices.Min(b.hosts):
		return fmt.Errorf("--full: is %d, must be 0 or more and below --hosts", b.full)
	case one(func(s storebench.Setting) bool {
		return s.Claims == storebench.Computes && s.Partition == storebench.Rendezvous
	}):
		return errors.New("--partition: rendezvous says which scheduler claims, and with --claims computes none does")
	case b.store == "" && one(storebench.Setting.Swaps):
		return errors.New("--claims: swap and swap-single are for PostgreSQL; name a server with --store")
	case b.store == "":
		return nil
	}
	if problems := config.StoreProblems(b.store, false, b.insecure); len(problems) > 0 {
		return fmt.Errorf("--store: %s", strings.ReplaceAll(strings.Join(problems, "; "), "store_password_file of a cell", "--store-password-file"))
	}
	u, err := url.Parse(b.store)
	if err == nil && strings.Trim(u.Path, "/") != "" {
		err = fmt.Errorf("--store: leave out database %s: each run makes one of its own", strings.Trim(u.Path, "/"))
	}
	if err == nil && strings.HasPrefix(u.Scheme, "cockroach") && one(storebench.Setting.Swaps) {
		err = errors.New("--claims: swap and swap-single are for PostgreSQL, and --store says CockroachDB")
	}
	return err
}

// settings gives the settings of the runs.
func (b *storeBench) settings() []storebench.Setting {
	all := []storebench.Setting{{Full: b.full}}
	all = times(all, b.callers, func(s *storebench.Setting, v int) { s.Callers = v })
	all = times(all, b.schedulers, func(s *storebench.Setting, v int) { s.Schedulers = v })
	all = times(all, b.hosts, func(s *storebench.Setting, v int) { s.Hosts = v })
	all = times(all, b.order, func(s *storebench.Setting, v string) { s.Order = v })
	all = times(all, b.partition, func(s *storebench.Setting, v string) { s.Partition = v })
	all = times(all, b.claims, func(s *storebench.Setting, v string) { s.Claims = v })
	if b.single {
		base := factors(all[0])
		all = slices.DeleteFunc(all, func(s storebench.Setting) bool {
			return len(slices.DeleteFunc(factors(s), func(f string) bool { return slices.Contains(base, f) })) > 1
		})
	}
	return all
}

func times[T any](settings []storebench.Setting, values []T, set func(*storebench.Setting, T)) (all []storebench.Setting) {
	for _, s := range settings {
		for _, v := range values {
			set(&s, v)
			all = append(all, s)
		}
	}
	return all
}

// factors gives, as text, what can differ between settings.
func factors(s storebench.Setting) []string {
	partition := s.Partition
	if partition == storebench.Unshared {
		partition = "no partition"
	}
	return []string{counted(s.Callers, "caller"), counted(s.Schedulers, "scheduler"), counted(s.Hosts, "host"), s.Order, partition, s.Claims}
}

// name gives the name of a run's row: its factors that differ between the runs, with --single from the
// first one.
func (b *storeBench) name(s storebench.Setting) string {
	return cmp.Or(strings.Join(b.shown(s, true), ", "), "(as above)")
}

// shown gives the factors of a setting that its row shows; without inRow, those that all runs share.
func (b *storeBench) shown(s storebench.Setting, inRow bool) []string {
	all := b.settings()
	if b.single {
		all = all[:1]
	}
	return slices.DeleteFunc(factors(s), func(factor string) bool {
		varies := slices.ContainsFunc(all, func(s storebench.Setting) bool { return !slices.Contains(factors(s), factor) })
		return varies != inRow
	})
}

// run measures each setting. The report has what it measured before an error.
func (b *storeBench) run(ctx context.Context, t terminal) (report *storeReport, err error) {
	dir := ""
	if b.store == "" || b.data != "" {
		if dir, err = os.MkdirTemp(b.data, "cellgate-bench-"); err != nil {
			return nil, fmt.Errorf("--data: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	report = &storeReport{Store: "Pebble"}
	if report.benchMachine, err = measureMachine(ctx, dir); err != nil {
		return nil, err
	}
	settings := b.settings()
	_, _ = fmt.Fprintf(t.err, "%s, %v each: about %v, and a moment to make each store\n", counted(len(settings), "run"), b.duration, time.Duration(len(settings))*b.duration)
	for i, s := range settings {
		_, _ = fmt.Fprintf(t.err, "run %d of %d: %s\n", i+1, len(settings), strings.Join(factors(s), ", "))
		r, err := b.once(ctx, s, filepath.Join(dir, fmt.Sprint(i)), report)
		if err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("interrupted in run %d of %d: %w", i+1, len(settings), err)
			}
			return report, err
		}
		report.Runs = append(report.Runs, r)
	}
	return report, nil
}

// once makes a shard, does one run on it and removes it.
func (b *storeBench) once(ctx context.Context, s storebench.Setting, dir string, report *storeReport) (r *storebench.Result, err error) {
	var on storebench.Stores
	var remove func() error
	if b.store == "" {
		on, remove, err = openEmbedded(dir, s)
	} else {
		on, remove, err = b.openServer(ctx, s, report)
	}
	if err == nil {
		r, err = storebench.Run(ctx, s, on, b.duration)
	}
	return r, errors.Join(err, remove())
}

// openEmbedded makes a shard on Pebble; remove closes and deletes it.
func openEmbedded(dir string, s storebench.Setting) (on storebench.Stores, remove func() error, err error) {
	store, err := pebbleshard.Open(dir, pebbleshard.Options{Cell: "bench"})
	if err != nil {
		return on, func() error { return nil }, fmt.Errorf("--data: %w", err)
	}
	on = storebench.Stores{Of: slices.Repeat([]shard.Store{store}, s.Schedulers), Conflicts: func() int64 { return 0 }}
	return on, func() error { return errors.Join(store.Close(), os.RemoveAll(dir)) }, nil
}

// openServer makes a database, and a store for each scheduler. remove removes them, even once ctx has
// ended.
func (b *storeBench) openServer(ctx context.Context, s storebench.Setting, report *storeReport) (on storebench.Stores, remove func() error, err error) {
	u, err := url.Parse(b.store)
	if err != nil {
		return on, func() error { return nil }, err
	}
	name := fmt.Sprintf("cellgate_bench_%d_%d", os.Getpid(), time.Now().UnixNano())
	u.Path = "/" + name
	opts := sqlshard.Options{Cell: "bench", URL: u.String(), PasswordFile: b.password, Create: true, Migrate: true, MaxConns: 4}
	// The database does not exist: this asks whether the server lets this user in.
	if err := sqlshard.Drop(ctx, opts); err != nil {
		return on, func() error { return nil }, fmt.Errorf("--store: %w", err)
	}
	var stores []*sqlshard.Store
	remove = func() (err error) {
		for _, store := range stores {
			err = errors.Join(err, store.Close())
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseLimit)
		defer cancel()
		if dropped := sqlshard.Drop(ctx, opts); dropped != nil {
			err = errors.Join(err, fmt.Errorf("database %s is left: %w", name, dropped))
		}
		return err
	}
	on.OpenSwap = func(ctx context.Context, s shard.Store, name string) (shard.Lane, error) {
		return s.(*sqlshard.Store).OpenSwapLane(ctx, name)
	}
	on.Conflicts = func() (n int64) {
		for _, s := range stores {
			n += s.Counts().Races
		}
		return n
	}
	opening, cancel := context.WithTimeout(ctx, migrationLimit)
	defer cancel()
	for range s.Schedulers {
		store, err := sqlshard.Open(opening, opts)
		if err != nil {
			return on, remove, fmt.Errorf("--store: %w", err)
		}
		stores, on.Of = append(stores, store), append(on.Of, store)
		report.Store, _, _ = strings.Cut(store.Server(), " on ")
	}
	return on, remove, nil
}

func (b *storeBench) show(p *page, r *storeReport) {
	p.width = pageWidth
	full := ""
	if b.full > 0 {
		full = fmt.Sprintf(" (%d full)", b.full)
	}
	p.prose("%s: %s%s; %v a run", r.Store, strings.Join(b.shown(b.settings()[0], false), ", "), full, b.duration)
	p.printf("%v\n\n", r.benchMachine)
	t := p.table("RUN", "CLAIMS/S", "REFUSALS", "CONFLICTS", "BATCH", "CPU US", "P50 MS", "P99 MS", "WRONG")
	for _, r := range r.Runs {
		t.row(b.name(r.Setting), fmt.Sprintf("%.0f", r.PerSecond), r.Refusals, r.Conflicts, ms(r.PerTransaction), fmt.Sprintf("%.0f", r.CPU), ms(r.P50), ms(r.P99), r.Wrong)
	}
	t.print()
}
