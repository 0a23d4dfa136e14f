package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"cellgate/internal/telemetry"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// topRefusals is how many of the latest refusals top shows. topWidth bounds the columns of a line.
	topRefusals, topWidth = 8, 100
	// topPatience bounds how long a frame waits for the gateway.
	topPatience = 5 * time.Second
	// topMaxMetrics bounds how much top reads of a gateway's metrics.
	topMaxMetrics = 16 << 20
	// noMetrics is the value of --metrics for a top without rates.
	noMetrics = "none"
)

func newTop(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the cells, the rate of selections and the latest refusals, again and again",
		Long: `Show each cell's hosts, fullness, gate, replicas and calls, and below them the latest refusals, until
Ctrl-C is pressed. Rates and durations are this gateway's since the frame before; they come from its
metrics (--metrics). While the gateway is away, its last answer stays, and the first line says so. One
frame is printed with --once, or where the output is no terminal.`,
		Example: `  cellgate top --once`,
		Args:    usageArgs(cobra.NoArgs),
	}
	f := cmd.Flags()
	metrics := f.String("metrics", "", "URL of the gateway's metrics; by default where the gateway at --addr says; none for no rates")
	every := f.Duration("interval", 2*time.Second, "time between frames")
	once := f.Bool("once", false, "print one frame")
	c := newClient(cmd, t)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch form := *c.form; {
		case form != "table" && form != "wide":
			return usage(cmd, fmt.Errorf("--output: top is for people; cellgate cells and decisions have %s", form))
		case *every < 100*time.Millisecond:
			return usage(cmd, fmt.Errorf("--interval: %v is below 100ms", *every))
		}
		if err := c.check(cmd); err != nil {
			return err
		}
		conn, err := c.connect(cmd)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }() // its calls are over
		own, err := c.credentials(cmd)
		if err != nil {
			return err
		}
		secure := &http.Client{Transport: own.Transport()}
		defer secure.CloseIdleConnections()
		top := &topView{client: c, conn: conn, metrics: *metrics, secure: secure}
		out := cmd.OutOrStdout()
		ctx := cmd.Context()
		if *once || !isTerminal(out) {
			// A rate needs two readings.
			top.read(ctx)
			if *metrics != noMetrics {
				pauseTop(ctx, *every)
				top.read(ctx)
			}
			p := page{width: topWidth}
			top.show(&p, time.Now())
			if _, err := p.WriteTo(out); err != nil {
				return err
			}
			return top.problem
		}
		for ctx.Err() == nil {
			top.read(ctx)
			p := page{colored: c.colors, width: topWidth}
			p.WriteString(clearScreen)
			top.show(&p, time.Now())
			if _, err := p.WriteTo(out); err != nil {
				return err
			}
			pauseTop(ctx, *every)
		}
		return nil
	}
	return cmd
}

// pauseTop waits for d, or until ctx ends.
func pauseTop(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// topView has what top shows: the last answers, and two readings of the metrics.
type topView struct {
	client  *client
	conn    *grpc.ClientConn
	metrics string
	// secure reads metrics over TLS, with the command's certificate or token.
	secure *http.Client

	cells    []*cellgatev1.Cell
	refusals []*cellgatev1.Decision
	// problem is why the gateway did not answer the last time. metricsProblem is why its metrics did
	// not.
	problem, metricsProblem error
	now, before             *topReading
}

// topReading has a gateway's histograms at one time.
type topReading struct {
	at time.Time
	// selections counts the calls of SelectDestinations, and refused those of them that did not end as
	// OK.
	selections histogramCounts
	refused    float64
	calls      map[string]histogramCounts
}

// histogramCounts has the upper bounds of a histogram's buckets, and the count up to each bound.
type histogramCounts struct{ bounds, counts []float64 }

func (v *topView) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, min(v.client.timeout, topPatience))
	defer cancel()
	cells, err := cellgatev1.NewCellsClient(v.conn).ListCells(ctx, &cellgatev1.ListCellsRequest{})
	if err == nil {
		v.cells = cells.GetCells()
		var list *cellgatev1.ListDecisionsResponse
		if list, err = cellgatev1.NewSchedulerClient(v.conn).ListDecisions(ctx, &cellgatev1.ListDecisionsRequest{Outcome: cellgatev1.DecisionOutcome_REFUSED, PageSize: topRefusals}); err == nil {
			v.refusals = list.GetDecisions()
		}
	}
	v.problem = nil
	if err != nil && ctx.Err() != context.Canceled {
		v.problem = v.client.located(ctx, err)
	}
	switch {
	case v.metrics == noMetrics:
		return
	case v.metrics != "":
	case v.problem != nil:
		v.metricsProblem = errors.New("the gateway says where its metrics are when it answers")
		return
	case cells.GetWebUrl() == "":
		v.metricsProblem = errors.New("the gateway does not say where its metrics are: give --metrics")
		return
	default:
		v.metrics = metricsAt(cells.GetWebUrl(), v.client.addr)
	}
	web := http.DefaultClient // a token never goes unencrypted
	if strings.HasPrefix(v.metrics, "https://") {
		web = v.secure
	}
	r, err := readTopMetrics(ctx, web, v.metrics)
	if v.metricsProblem = err; err == nil {
		v.before, v.now = v.now, r
	} else {
		v.before, v.now = nil, nil
	}
}

// metricsAt gives the URL of the metrics of a gateway that serves REST at web. When web names no
// address that others reach, its host is that of the gRPC API.
func metricsAt(web, addr string) string {
	u, err := url.Parse(web)
	if err != nil {
		return web // the request to it reports what is wrong
	}
	at, err := netip.ParseAddr(u.Hostname())
	if host, _, split := net.SplitHostPort(addr); err == nil && split == nil && (at.IsUnspecified() || at.IsLoopback()) {
		u.Host = net.JoinHostPort(host, u.Port())
	}
	return u.JoinPath("metrics").String()
}

func readTopMetrics(ctx context.Context, web *http.Client, url string) (*topReading, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	families, err := telemetry.Parse(http.MaxBytesReader(nil, resp.Body, topMaxMetrics))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	r := &topReading{at: time.Now(), calls: map[string]histogramCounts{}}
	for _, name := range []string{"cellgate_gateway_request_seconds", "cellgate_gateway_cell_call_seconds", "cellgate_gateway_requests_total"} {
		for _, m := range families[name].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			var h histogramCounts
			for _, b := range m.GetHistogram().GetBucket() {
				h.bounds, h.counts = append(h.bounds, b.GetUpperBound()), append(h.counts, float64(b.GetCumulativeCount()))
			}
			switch {
			case labels["rpc"] == "ProposeBatch" && name == "cellgate_gateway_cell_call_seconds":
				r.calls[labels["cell"]] = h
			case labels["rpc"] != "SelectDestinations":
			case name == "cellgate_gateway_request_seconds":
				r.selections = h
			case name == "cellgate_gateway_requests_total" && labels["outcome"] != "OK":
				r.refused += m.GetCounter().GetValue()
			}
		}
	}
	return r, nil
}

// since gives the histogram of what came after an earlier one. It gives all of it when the process has
// restarted.
func (h histogramCounts) since(before histogramCounts) histogramCounts {
	n := len(h.counts)
	if n == 0 || len(before.counts) != n || before.counts[n-1] > h.counts[n-1] {
		return h
	}
	counts := make([]float64, n)
	for i := range counts {
		counts[i] = h.counts[i] - before.counts[i]
	}
	return histogramCounts{h.bounds, counts}
}

func (h histogramCounts) total() float64 {
	if len(h.counts) == 0 {
		return 0
	}
	return h.counts[len(h.counts)-1]
}

// quantile interpolates within a bucket, as Prometheus does. It gives "-" for an empty histogram.
func (h histogramCounts) quantile(q float64) string {
	if h.total() == 0 {
		return "-"
	}
	rank := q * h.total()
	i := slices.IndexFunc(h.counts, func(n float64) bool { return n >= rank })
	low, under := 0.0, 0.0
	if i > 0 {
		low, under = h.bounds[i-1], h.counts[i-1]
	}
	at := low
	if inside := h.counts[i] - under; inside > 0 && !math.IsInf(h.bounds[i], 1) {
		at += (h.bounds[i] - low) * (rank - under) / inside
	}
	d := time.Duration(at * float64(time.Second))
	return d.Round(max(time.Microsecond, d/100)).Round(time.Microsecond).String()
}

// figures gives the rate and the quantiles of a histogram between two readings.
func (v *topView) figures(of func(*topReading) histogramCounts) (rate, p50, p99 string) {
	if v.now == nil || v.before == nil {
		return "-", "-", "-"
	}
	h := of(v.now).since(of(v.before))
	return fmt.Sprintf("%.1f", h.total()/v.now.at.Sub(v.before.at).Seconds()), h.quantile(.5), h.quantile(.99)
}

func (v *topView) show(p *page, at time.Time) {
	up := 0
	for _, c := range v.cells {
		if c.GetAvailable() {
			up++
		}
	}
	p.printf("%s  %s  %d of %d cells available\n", v.client.addr, at.UTC().Format(time.TimeOnly+"Z"), up, len(v.cells))
	if v.problem != nil {
		p.printf("%s\n", p.tint(cut("The gateway does not answer; this is its last answer: "+printable(v.problem.Error()), topWidth), red))
	}
	rate, p50, p99 := v.figures(func(r *topReading) histogramCounts { return r.selections })
	refused := "-"
	if v.now != nil && v.before != nil {
		refused = fmt.Sprintf("%.1f", max(0, v.now.refused-v.before.refused)/v.now.at.Sub(v.before.at).Seconds())
	}
	p.printf("selections %s/s, p50 %s, p99 %s, refused %s/s\n", rate, p50, p99, refused)
	if v.metricsProblem != nil {
		p.printf("%s\n", cut("no rates: "+printable(v.metricsProblem.Error()), topWidth))
	}
	p.printf("\n")
	t := p.table("CELL", "STATE", "HOSTS UP", "GATE", "VCPU", "PCPU", "MEMORY", "DISK", "REPLICAS", "CALLS/S", "P50", "P99")
	for _, c := range v.cells {
		calls, p50, p99 := v.figures(func(r *topReading) histogramCounts { return r.calls[c.GetCell()] })
		gate := ""
		if s := c.GetGate().GetState(); s != cellgatev1.Gate_STATE_UNSPECIFIED {
			gate = s.String()
		}
		t.row(c.GetCell(), cellStatus(c), of(c.GetHostsUp(), c.GetHosts()), gate, fullness(c, "VCPU"), fullness(c, "PCPU"), fullness(c, "MEMORY_MB"), fullness(c, "DISK_GB"), replicaStatus(c), calls, p50, p99)
	}
	t.print()
	if len(v.refusals) == 0 {
		return
	}
	p.printf("\nLATEST REFUSALS\n")
	for _, d := range v.refusals {
		decided, form := d.GetDecidedAt().AsTime(), time.TimeOnly+"Z"
		if decided.Format(time.DateOnly) != at.UTC().Format(time.DateOnly) {
			form = time.DateTime + "Z"
		}
		line := fmt.Sprintf("%s  %s: %s", decided.Format(form), d.GetRefusal(), printable(d.GetMessage()))
		p.printf("%s\n", cut(line, topWidth))
	}
}

// fullness says how much of a class is in use; empty when the cell has none.
func fullness(c *cellgatev1.Cell, class string) string {
	for _, r := range c.GetResources() {
		if r.GetResourceClass() == class && r.GetCapacity() > 0 {
			return fmt.Sprintf("%d%%", 100*r.GetUsed()/r.GetCapacity())
		}
	}
	return ""
}

// replicaStatus says how many breakers of a cell's replicas are closed, and how many replicas load.
func replicaStatus(c *cellgatev1.Cell) string {
	closed, loading := 0, 0
	for _, r := range c.GetReplicaStates() {
		if r.GetBreaker() == cellgatev1.BreakerState_CLOSED {
			closed++
		}
		if r.GetLoading() {
			loading++
		}
	}
	text := of(int64(closed), int64(len(c.GetReplicaStates())))
	if closed < len(c.GetReplicaStates()) {
		text = "open " + text
	}
	if loading > 0 {
		text += fmt.Sprintf(" %d loading", loading)
	}
	return strings.TrimSpace(text)
}
