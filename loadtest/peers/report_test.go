package peers

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"cellgate/internal/bench"
)

// The systems that are compared.
const (
	placementName = "Placement"
	cellgateName  = "cellgate"
)

// report is a run: where it ran, what ran, and the results.
type report struct {
	Date       string            `json:"date"`
	Commit     string            `json:"commit"`
	Command    string            `json:"command"`
	Machine    string            `json:"machine"`
	LoadBefore string            `json:"load_average_before"`
	LoadAfter  string            `json:"load_average_after"`
	Versions   map[string]string `json:"versions"`
	// The machine's own speed, before and after.
	YardstickBefore bench.Yardstick `json:"yardstick_before"`
	YardstickAfter  bench.Yardstick `json:"yardstick_after"`
	// SecondsEach is how long each step claims.
	SecondsEach float64      `json:"seconds_each"`
	Steps       []step       `json:"steps"`
	Filters     []filterTime `json:"nova_filters"`
}

// row is the same step of both systems.
type row struct{ placement, cellgate step }

// ratio is cellgate's claims a second divided by Placement's; 0 if Placement made none.
func (r row) ratio() float64 {
	if r.placement.Rate == 0 {
		return 0
	}
	return r.cellgate.Rate / r.placement.Rate
}

// rows pairs the steps, in their order.
func (r *report) rows() (all []row) {
	for _, p := range r.Steps {
		if p.System != placementName {
			continue
		}
		for _, c := range r.Steps {
			if c.System == cellgateName && c.Hosts == p.Hosts && c.Order == p.Order && c.Callers == p.Callers {
				all = append(all, row{p, c})
			}
		}
	}
	return all
}

var columns = []string{
	"hosts", "order", "callers",
	"Placement: claims/s", "p50 ms", "p99 ms", "races lost", "errors",
	"cellgate: claims/s", "p50 ms", "p99 ms", "races lost", "errors", "cellgate : Placement",
}

func (r row) cells() []string {
	all := []string{fmt.Sprint(r.placement.Hosts), string(r.placement.Order), fmt.Sprint(r.placement.Callers)}
	for _, s := range []step{r.placement, r.cellgate} {
		all = append(all, short(s.Rate), short(s.Latency.P50), short(s.Latency.P99), fmt.Sprint(s.Lost), fmt.Sprint(s.failed()))
	}
	if r.ratio() == 0 {
		return append(all, "-")
	}
	return append(all, short(r.ratio()))
}

// short formats a number with three significant digits, or more if more are before the point.
func short(x float64) string {
	switch {
	case x >= 100 || x == 0:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// markdown is the report as text.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Claims of %d VCPU, %d MiB and %d GB, one system after the other, at least %v s a step or until four fifths of the room are claimed. %s, commit %s, %s.\n",
		claimVCPUs, claimMemoryMB, claimDiskGB, r.SecondsEach, r.Date, r.Commit, r.Machine)
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(&b, "%s %s. ", name, r.Versions[name])
	}
	fmt.Fprintf(&b, "\nLoad average before %s, after %s. Yardstick before: %s; after: %s.\n\n", r.LoadBefore, r.LoadAfter, r.YardstickBefore, r.YardstickAfter)
	writeRow := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	writeRow(columns)
	b.WriteString("|---:|---|---:" + strings.Repeat("|---:", len(columns)-3) + "|\n")
	for _, row := range r.rows() {
		writeRow(row.cells())
	}
	b.WriteString("\nNova's default filters and weighers alone, CPU time a selection:\n\n| hosts | ms |\n|---:|---:|\n")
	for _, f := range r.Filters {
		fmt.Fprintf(&b, "| %d | %s |\n", f.Hosts, short(f.Milliseconds))
	}
	return b.String()
}

// write leaves the report in a folder, as peers.md, peers.svg and as JSON with its date.
func (r *report) write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "peers-"+strings.ReplaceAll(r.Date, ":", "")+".json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "peers.svg"), []byte(r.chart()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "peers.md"), []byte(r.markdown()), 0o644)
}

// newReport begins a report with the time and the place of the run.
func newReport(p plan) (*report, error) {
	r := &report{
		Date: time.Now().UTC().Format(time.RFC3339), LoadBefore: loadAverage(), SecondsEach: p.each.Seconds(),
		Machine: fmt.Sprintf("%d CPUs, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH),
		Command: fmt.Sprintf("make peers PEERS_HOSTS=%s PEERS_ORDERS=%s PEERS_SECONDS=%v", joined(p.hosts), joined(p.orders), p.each.Seconds()),
	}
	commit, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return nil, fmt.Errorf("git describe: %w", err)
	}
	r.Commit = strings.TrimSpace(string(commit))
	r.Versions = map[string]string{cellgateName: r.Commit}
	for name, of := range map[string]string{placementName: "python3-placement", "Nova": "python3-nova", "uWSGI": "uwsgi-core", "MariaDB": "mariadb-server-core"} {
		version, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", of).Output()
		if err != nil {
			return nil, fmt.Errorf("version of %s: %w", of, err)
		}
		r.Versions[name] = string(version)
	}
	return r, nil
}

func joined[T any](all []T) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(all), "[]")), ",")
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
