package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellgate/gateway/placement"
	"cellgate/gateway/placement/mirror"
	"cellgate/internal/config"
	"cellgate/internal/ingress"
	"cellgate/internal/lifecycle"
)

func newPlacement(t terminal) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "placement",
		Short: "Compare two Placements, copy one to the other, or tap one",
		Long: `Move from OpenStack's Placement to the cells, and back: one side is placement-api, the other one the
Placement API of a gateway. docs/how-to/placement.md has the order.`,
		Example: "  cellgate placement copy --help",
	})
	cmd.AddCommand(newPlacementCopy(t), newPlacementTap(t))
	return cmd
}

// placementSides has the flags that both commands share.
type placementSides struct {
	from, to string
	noauth   bool
	parallel int
	env      []string
}

func (s *placementSides) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.from, "from", "", "URL of the Placement that is right")
	f.StringVar(&s.to, "to", "", "URL of the Placement that is made equal; a gateway's may end in /cells/NAME: new trees go there")
	f.BoolVar(&s.noauth, "noauth", false, "send the token admin, to sides without Keystone; else the account of OS_AUTH_URL, OS_USERNAME, OS_PASSWORD, OS_PROJECT_NAME, OS_USER_DOMAIN_NAME and OS_PROJECT_DOMAIN_NAME gets one")
	f.IntVar(&s.parallel, "parallel", 8, "requests to each side at once")
}

// token gives the token for the account in the environment, which it reads as OpenStack's clients do.
func (s *placementSides) token(cmd *cobra.Command) (func(context.Context) (string, error), error) {
	if s.noauth {
		return mirror.StaticToken("admin"), nil
	}
	of := func(name string) string {
		for _, pair := range s.env {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				return value
			}
		}
		return ""
	}
	k := placement.KeystoneConfig{
		AuthURL: of("OS_AUTH_URL"), Username: of("OS_USERNAME"), Password: of("OS_PASSWORD"), ProjectName: of("OS_PROJECT_NAME"),
		UserDomain: cmp.Or(of("OS_USER_DOMAIN_NAME"), "Default"), ProjectDomain: cmp.Or(of("OS_PROJECT_DOMAIN_NAME"), "Default"),
	}
	if k.AuthURL == "" || k.Username == "" || k.Password == "" || k.ProjectName == "" {
		return nil, usage(cmd, errors.New("OS_AUTH_URL, OS_USERNAME, OS_PASSWORD and OS_PROJECT_NAME must be set, or --noauth"))
	}
	return mirror.KeystoneToken(k, nil), nil
}

// open makes a client of each side.
func (s *placementSides) open(cmd *cobra.Command) (from, to *mirror.Client, err error) {
	if s.from == "" || s.to == "" {
		return nil, nil, usage(cmd, errors.New("--from and --to are needed"))
	}
	if samePlacement(s.from, s.to) {
		return nil, nil, usage(cmd, fmt.Errorf("--from and --to must be two Placements: %s and %s are one, whatever cell the path names", s.from, s.to))
	}
	if s.parallel < 1 {
		return nil, nil, usage(cmd, fmt.Errorf("--parallel: %d is below 1", s.parallel))
	}
	if from, err = s.client(cmd, s.from); err != nil {
		return nil, nil, err
	}
	to, err = s.client(cmd, s.to)
	return from, to, err
}

// samePlacement reports whether two URLs lead to the same Placement.
func samePlacement(from, to string) bool {
	plain := func(addr string) string {
		u, err := url.Parse(addr)
		if err != nil {
			return addr
		}
		path, _, _ := strings.Cut(u.Path+"/", placement.CellsPath)
		return strings.ToLower(u.Host) + strings.TrimRight(path, "/")
	}
	return plain(from) == plain(to)
}

// client makes the client of one side.
func (s *placementSides) client(cmd *cobra.Command, addr string) (*mirror.Client, error) {
	token, err := s.token(cmd)
	if err != nil {
		return nil, err
	}
	c, err := mirror.NewClient(cmd.Context(), addr, nil, token)
	return c, placementAway(addr, err)
}

// placementAway turns the error of a side that does not answer into an unreachableError. A side's
// refusal stays as it is.
func placementAway(addr string, err error) error {
	if transport := net.Error(nil); errors.As(err, &transport) {
		return &unreachableError{who: "Placement", addr: addr, err: err}
	}
	return err
}

func newPlacementCopy(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "copy",
		Short: "Make one Placement equal to another one, or say what differs",
		Long: `Copy the custom names, provider trees, inventories, traits, aggregates and allocations of one Placement to
another one, and delete there what the first does not have. With --dry-run nothing is written. Copying again is harmless.

Generations are those that the other side counts. Allocations above a capacity, or against min_unit, max_unit or
step_size, are refused there, and listed.

If the first Placement has no providers, or if more than half of more than 10 providers of the other one would be deleted,
nothing is written without --allow-deletions.

Exit status: 0 done, 1 something could not be copied, 2 wrong usage, 3 a side does not answer.`,
		Example: `  cellgate placement copy --from http://placement.example:8778 --to http://gateway.example:8778/cells/cell1 --noauth --dry-run
  cellgate placement copy --from http://placement.example:8778 --to http://gateway.example:8778 --noauth -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	s := &placementSides{env: t.env}
	s.flags(cmd)
	dry := cmd.Flags().Bool("dry-run", false, "compare only")
	allow := cmd.Flags().Bool("allow-deletions", false, "copy even if that deletes most providers of the other Placement")
	limit := limitFlag(cmd, "differences")
	form := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		from, to, err := s.open(cmd)
		if err != nil {
			return err
		}
		r, err := mirror.New(from, to, s.parallel).Pass(cmd.Context(), mirror.PassConfig{
			Dry: *dry, AllowDeletions: *allow, MaxLines: limit.lines(), Progress: newProgress(t.err),
		})
		if err != nil {
			return placementAway(s.from+" or "+s.to, err)
		}
		if *form == "json" {
			err = encode(t.out, r)
		} else {
			p := &page{width: pageWidth}
			showCopied(p, r, *dry)
			_, err = p.WriteTo(t.out)
		}
		if err == nil && r.Failed > 0 {
			err = fmt.Errorf("%s could not be copied", counted(r.Failed, "difference"))
		}
		return err
	}
	return cmd
}

func showCopied(p *page, r *mirror.Report, dry bool) {
	t := p.table("DIFFERENCE", "NUMBER")
	for _, what := range []mirror.What{
		mirror.NameMissing, mirror.NameExtra, mirror.ProviderMissing, mirror.ProviderDiffers, mirror.ProviderExtra, mirror.ProviderAgents,
		mirror.ConsumerMissing, mirror.ConsumerDiffers, mirror.ConsumerExtra, mirror.ConsumerAgents,
	} {
		t.row(what, r.Counts[what])
	}
	t.print()
	lines := p.table("WHAT", "OBJECT", "DETAIL", "NOT COPIED BECAUSE")
	for _, l := range r.Lines {
		lines.row(l.What, l.Object, l.Detail, l.Error)
	}
	lines.printBelow()
	p.printf("\n%s and %s compared", counted(r.Providers, "provider"), counted(r.Consumers, "consumer"))
	if dry {
		p.printf("; nothing was written")
	}
	p.printf("\n")
	if r.Refused != "" {
		p.prose("Without --dry-run: %s", r.Refused)
	}
}

func newPlacementTap(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tap",
		Short: "Serve one Placement, and copy to another one what is written to it",
		Long: `Forward every request to one Placement, and copy what was written to another one. Callers get the first one's
answers, and wait for nothing else. Answers to reads are compared with the other one's. At the start, and every hour,
everything is compared and copied. If that would delete most of the other one's providers at the start, as copy explains,
the tap ends and nothing is deleted.

What was written, copied and found different is logged every minute. Any number of taps may serve one Placement.

Exit status: 0 stopped, 1 it cannot serve, or would delete most providers, 2 wrong usage, 3 a side does not answer at the
start.`,
		Example: `  cellgate placement tap --from http://placement.example:8778 --to http://gateway.example:8778 --noauth`,
		Args:    usageArgs(cobra.NoArgs),
	}
	s := &placementSides{env: t.env}
	s.flags(cmd)
	listen := cmd.Flags().String("listen", "127.0.0.1:8779", "address to serve")
	compare := cmd.Flags().Bool("compare-reads", true, "compare the answers to reads")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		from, to, err := s.open(cmd)
		if err != nil {
			return err
		}
		log := newLog(config.Default().Log, t)
		front, err := mirror.Proxy(s.from, nil, log)
		if err != nil {
			return err
		}
		var compared http.Handler
		if *compare {
			if compared, err = mirror.Proxy(s.to, nil, log); err != nil {
				return err
			}
		}
		in := ingress.New(ingress.Limits{})
		tap := mirror.NewTap(mirror.TapConfig{Ingress: in}, mirror.New(from, to, s.parallel), front, compared, log)
		l, err := lifecycle.Listen(*listen, "listen")
		if err != nil {
			return &serverError{err}
		}
		log.Info("The tap serves.", "listen", l.Addr(), "from", s.from, "to", s.to)
		// The server answers its callers to the end first. Then copying stops.
		parts := append(tapParts(log, tap), lifecycle.HTTP("tap", tap, in.Listener(l), log))
		if err := lifecycle.Run(cmd.Context(), log, lifecycle.Limits{Grace: shutdownWithin}, parts...); err != nil {
			return &serverError{err}
		}
		return nil
	}
	return cmd
}

// tapParts copy what a tap forwarded, and log its counts each minute and at the end.
func tapParts(log *slog.Logger, tap *mirror.Tap) []lifecycle.Part {
	logCounts := func() {
		st := tap.Status()
		log.Info("The tap's counts.", "writes", st.Writes, "copied", st.Copied, "copy_failed", st.CopyFailed, "pending", st.Pending,
			"reads_compared", st.ReadsCompared, "reads_differ", st.ReadsDiffer, "passes", st.Passes, "last_error", st.LastError)
		if d := st.LastDiffering; d != nil {
			log.Warn("The last read that both sides answered differently.", "path", d.Path, "microversion", d.Microversion, "from", d.Source, "to", d.Target)
		}
	}
	counts := func(ctx context.Context) error {
		defer logCounts()
		every := time.NewTicker(time.Minute)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				logCounts()
			case <-ctx.Done():
				return nil
			}
		}
	}
	return []lifecycle.Part{{Name: "tap's counts", Run: counts}, {Name: "tap", Run: tap.Run}}
}
