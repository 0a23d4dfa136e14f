// Package deploy holds what is deployed beside the binary; its tests look at what can
// be looked at without containers. cmd/cellgate has those that need the command.
package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"cellgate/internal/telemetry"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// series returns the metric names in Prometheus, with their labels and the allowed values of those.
// nil allows any value.
func series() map[string]map[string][]string {
	out := map[string]map[string][]string{"up": {"job": nil, "instance": nil}}
	// Metrics of CockroachDB, at /_status/vars.
	for _, name := range []string{"liveness_livenodes", "ranges_unavailable", "ranges_underreplicated"} {
		out[name] = map[string][]string{"job": nil, "instance": nil}
	}
	for _, m := range telemetry.Metrics() {
		names := []string{m.Name}
		if m.Kind == telemetry.Histogram {
			names = []string{m.Name + "_bucket", m.Name + "_sum", m.Name + "_count"}
		}
		for _, name := range names {
			has := map[string][]string{"job": nil, "instance": nil}
			for _, l := range m.Labels {
				has[l.Name] = l.Values
			}
			if strings.HasSuffix(name, "_bucket") {
				has["le"] = nil
			}
			out[name] = has
		}
	}
	return out
}

var (
	// selector is a name that is no function, with its filters and its range.
	selector = regexp.MustCompile(`\b([a-z_][a-z0-9_]*)(\{[^}]*\})?(\[[^\]]*\])?(\s*\()?`)
	filter   = regexp.MustCompile(`^([a-z_]+)(=~|!~|!=|=)"([^"]*)"$`)
	grouping = regexp.MustCompile(`\bby\s*\(([^)]*)\)`)
	overTime = regexp.MustCompile(`\b(?:rate|irate|increase|delta|[a-z]+_over_time)\(([^()]*)\)`)
	keywords = []string{"by", "without", "and", "or", "unless", "on", "ignoring", "group_left", "group_right", "bool", "offset", "inf"}
)

// checkQuery checks that the metrics in a query exist, with the labels that it selects and groups
// by. It does not parse PromQL: of the syntax it checks only parentheses and ranges.
func checkQuery(known map[string]map[string][]string, query string) error {
	query = strings.ReplaceAll(query, "$__rate_interval", "1m")
	var problems []string
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if strings.Count(query, "(") != strings.Count(query, ")") {
		bad("parentheses do not match")
	}
	for _, m := range overTime.FindAllStringSubmatch(query, -1) {
		if !strings.Contains(m[1], "[") {
			bad("%s needs a time in brackets", m[0])
		}
	}
	names := checkSelectors(known, grouping.ReplaceAllString(query, " "), bad)
	if len(names) == 0 {
		bad("no metric is asked for")
	}
	for _, m := range grouping.FindAllStringSubmatchIndex(query, -1) {
		// The aggregated expression follows in parentheses, or precedes.
		inside := argument(query[m[1]:])
		if inside == "" {
			inside = query[:m[0]]
		}
		for _, name := range checkSelectors(known, grouping.ReplaceAllString(inside, " "), func(string, ...any) {}) {
			for _, by := range strings.Split(query[m[2]:m[3]], ",") {
				if _, ok := known[name][strings.TrimSpace(by)]; !ok {
					bad("%s has no label %q to group by", name, strings.TrimSpace(by))
				}
			}
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s: %s", query, strings.Join(problems, "; "))
	}
	return nil
}

// argument returns the content of the parentheses that a text begins with.
func argument(text string) string {
	text, depth := strings.TrimSpace(text), 0
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return text[1:i]
			}
		}
		if depth == 0 {
			return ""
		}
	}
	return ""
}

// checkSelectors compares the filters of all selectors with the labels of their metrics, and
// gives the metrics.
func checkSelectors(known map[string]map[string][]string, query string, bad func(string, ...any)) (names []string) {
	for _, m := range selector.FindAllStringSubmatch(query, -1) {
		name, braces := m[1], m[2]
		if m[4] != "" || slices.Contains(keywords, name) {
			continue
		}
		has, ok := known[name]
		if !ok {
			bad("there is no metric %q", name)
			continue
		}
		names = append(names, name)
		for _, text := range strings.FieldsFunc(strings.Trim(braces, "{}"), func(r rune) bool { return r == ',' }) {
			f := filter.FindStringSubmatch(strings.TrimSpace(text))
			if f == nil {
				bad("%s is no filter", text)
				continue
			}
			values, ok := has[f[1]]
			matches := func(value string) bool { return passes(f, value) }
			switch {
			case !ok:
				bad("%s has no label %q", name, f[1])
			case values != nil && !slices.ContainsFunc(values, matches):
				bad("no value of %s{%s} is %s", name, f[1], text)
			}
		}
	}
	return names
}

// passes reports whether a value of its label passes a filter.
func passes(filter []string, value string) bool {
	if strings.HasSuffix(filter[2], "~") {
		return regexp.MustCompile("^(?:"+filter[3]+")$").MatchString(value) == (filter[2] == "=~")
	}
	return (value == filter[3]) == (filter[2] == "=")
}

func TestCheckQueryFindsWhatIsWrong(t *testing.T) {
	known := series()
	for query, want := range map[string]string{
		`sum by (cell) (rate(cellgate_cell_leases_expired_total[$__rate_interval]))`:         "",
		`sum(rate(cellgate_gateway_claims_total{end="refused"}[5m]))`:                        "",
		`sum(rate(cellgate_gateway_no_such_total[5m]))`:                                      "no metric",
		`cellgate_gateway_request_seconds`:                                                   "no metric",
		`cellgate_gateway_in_flight{cell="cell1"}`:                                           "no label",
		`sum by (replica) (cellgate_gateway_in_flight)`:                                      "to group by",
		`cellgate_gateway_claims_total{end="lost"}`:                                          "no value",
		`rate(cellgate_gateway_in_flight)`:                                                   "needs a time in brackets",
		`histogram_quantile(0.9, sum by (le) (rate(cellgate_gateway_in_flight_bucket[5m])))`: "no metric",
		`sum(rate(cellgate_gateway_claims_total[5m])`:                                        "parentheses",
		`1 + 1`: "no metric",
	} {
		err := checkQuery(known, query)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}

func TestDashboardsAskForMetricsThereAre(t *testing.T) {
	files, err := filepath.Glob("grafana/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards: %v %v", files, err)
	}
	var sources struct {
		Datasources []struct{ UID, Type, URL string }
	}
	if err := yaml.Unmarshal([]byte(read(t, "grafana/provisioning/datasources/prometheus.yaml")), &sources); err != nil || len(sources.Datasources) != 1 {
		t.Fatalf("datasources: %v %v", sources, err)
	}
	known := series()
	for _, file := range files {
		var board struct {
			UID, Title string
			Templating struct {
				List []struct {
					Name  string
					Query any
				}
			}
			Panels []struct {
				ID         int
				Type       string
				Title      string
				Datasource struct{ UID string }
				GridPos    struct{ X, Y, W, H int }
				Targets    []struct{ Expr, RefID string }
			}
		}
		if err := json.Unmarshal([]byte(read(t, file)), &board); err != nil {
			t.Fatal(err)
		}
		variables := map[string]any{}
		for _, v := range board.Templating.List {
			variables[v.Name] = v.Query
		}
		if variables["datasource"] != sources.Datasources[0].Type || variables["cell"] == nil {
			t.Errorf("%s: its variables are %v, want datasource of the provisioned type, and cell", file, variables)
		}
		ids, queries := map[int]bool{}, 0
		for _, p := range board.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels are %d", file, p.ID)
			}
			ids[p.ID] = true
			if p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: %s is off the grid", file, p.Title)
			}
			if p.Type == "row" {
				continue
			}
			if p.Datasource.UID != "${datasource}" {
				t.Errorf("%s: %s asks %q, want the variable datasource", file, p.Title, p.Datasource.UID)
			}
			for _, q := range p.Targets {
				queries++
				if err := checkQuery(known, q.Expr); err != nil {
					t.Errorf("%s: %s: %v", file, p.Title, err)
				}
				for _, name := range checkSelectors(known, grouping.ReplaceAllString(q.Expr, " "), func(string, ...any) {}) {
					if _, ok := known[name]["cell"]; ok && !strings.Contains(q.Expr, name+`{cell=~"$cell"`) {
						t.Errorf("%s: %s: %s is not limited to $cell", file, p.Title, name)
					}
				}
			}
		}
		if board.UID == "" || board.Title == "" || queries < 20 {
			t.Errorf("%s: uid %q, title %q, %d queries", file, board.UID, board.Title, queries)
		}
	}
}

// sectionsOf returns the text of each section of a page, by the heading's link target.
func sectionsOf(page string) map[string]string {
	out := map[string]string{}
	for _, section := range strings.Split(page, "\n## ")[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		plain := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading), "")
		out[strings.ReplaceAll(plain, " ", "-")] = text
	}
	return out
}

// rule is an alert.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// alerts returns the alerts of all files.
func alerts(t *testing.T) (all []rule) {
	t.Helper()
	files, err := filepath.Glob("*/alerts*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("files of alerts: %v %v", files, err)
	}
	for _, file := range files {
		var rules struct{ Groups []struct{ Rules []rule } }
		if err := yaml.Unmarshal([]byte(read(t, file)), &rules); err != nil {
			t.Fatal(err)
		}
		for _, g := range rules.Groups {
			all = append(all, g.Rules...)
		}
	}
	return all
}

// Alerts name metrics that exist, and their annotation runbook_url names a section of the runbook
// that names the alert. Every section has an alert.
func TestAlerts_MetricsAndRunbookSections_Exist(t *testing.T) {
	known, sections := series(), sectionsOf(read(t, "../docs/how-to/runbook.md"))
	linked, seen := map[string]bool{}, map[string]bool{}
	for _, r := range alerts(t) {
		if seen[r.Alert] || r.Alert == "" || r.For == "" || r.Annotations["summary"] == "" {
			t.Errorf("alert %q: %v", r.Alert, r)
		}
		seen[r.Alert] = true
		if err := checkQuery(known, r.Expr); err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
		anchor, ok := strings.CutPrefix(r.Annotations["runbook_url"], "docs/how-to/runbook.md#")
		if !ok || !strings.Contains(sections[anchor], r.Alert) {
			t.Errorf("%s: its runbook_url %q is no section of docs/how-to/runbook.md that names the alert", r.Alert, r.Annotations["runbook_url"])
		}
		linked[anchor] = true
	}
	for anchor := range sections {
		if !linked[anchor] {
			t.Errorf("no alert links to %s", anchor)
		}
	}
}

// The alerts on processes and on hosts' verdicts select what they are meant for.
func TestAlerts_Selectors_PassAndLeaveOut(t *testing.T) {
	jobs := regexp.MustCompile(`job_name: (cellgate\S*)`)
	for _, c := range []struct {
		alert, label string
		in, out      []string
	}{
		{"CellgateProcessDown", "job", nil, []string{"cockroachdb"}},
		{"CellgateHostsReject", "verdict", []string{"NO_ROOM"}, []string{"ok", "ABORTED"}}, // an aborted claim had its room
	} {
		if c.label == "job" {
			for _, file := range []string{"compose/prometheus.yaml", "../docs/reference/telemetry.md"} {
				for _, m := range jobs.FindAllStringSubmatch(read(t, file), -1) {
					c.in = append(c.in, m[1])
				}
			}
		}
		all := alerts(t)
		r := all[slices.IndexFunc(all, func(r rule) bool { return r.Alert == c.alert })]
		f := filter.FindStringSubmatch(regexp.MustCompile(c.label + `[!=~]+"[^"]*"`).FindString(r.Expr))
		if f == nil || len(c.in) == 0 {
			t.Errorf("%s: %v filters no %s, or there is none", c.alert, r.Expr, c.label)
			continue
		}
		for _, value := range append(c.in, c.out...) {
			if passes(f, value) == slices.Contains(c.out, value) {
				t.Errorf("%s: %s %q passes: %v", c.alert, c.label, value, passes(f, value))
			}
		}
	}
}

// An event shows in a rate for as long as its window. An alert on any rate above 0 waits that long, so
// that a single event is none. Two confirmed claims are worth one.
func TestAlerts_OfRates_WaitForTheirWindow(t *testing.T) {
	anyRate, found := regexp.MustCompile(`(?:rate|increase)\(.*\[(\w+)\]\)+ > 0$`), 0
	for _, r := range alerts(t) {
		m := anyRate.FindStringSubmatch(strings.TrimSpace(r.Expr))
		if m == nil || r.Alert == "CellgateTwoConfirmed" {
			continue
		}
		found++
		window, werr := time.ParseDuration(m[1])
		wait, err := time.ParseDuration(r.For)
		if werr != nil || err != nil || wait < window {
			t.Errorf("%s waits %s, and looks back %s", r.Alert, r.For, m[1])
		}
	}
	if found < 5 {
		t.Errorf("only %d alerts were examined", found)
	}
}

// pinned is an image with its registry and a tag that is a version.
var pinned = regexp.MustCompile(`^docker\.io/[a-z]+/[a-z]+:v?[0-9]+\.[0-9]+\.[0-9]+$`)

func TestComposeParsesAndPinsItsImages(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Image       string
			Build       any
			Command     any
			Volumes     []string
			Ports       []string
			DependsOn   any `yaml:"depends_on"`
			Environment map[string]string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal([]byte(read(t, "compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	for name, s := range file.Services {
		if s.Build == nil && !pinned.MatchString(s.Image) {
			t.Errorf("%s: image %q has no version", name, s.Image)
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if path, ok := strings.CutPrefix(from, "./"); ok {
				if _, err := os.Stat(path); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			} else if _, ok := file.Volumes[from]; !ok {
				t.Errorf("%s: there is no volume %q", name, from)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to others, and nothing here has a password", name, p)
			}
		}
		var needs []string
		switch d := s.DependsOn.(type) {
		case []any:
			for _, n := range d {
				needs = append(needs, fmt.Sprint(n))
			}
		case map[string]any:
			for n := range d {
				needs = append(needs, n)
			}
		}
		for _, n := range needs {
			if _, ok := file.Services[n]; !ok {
				t.Errorf("%s depends on %q, which is no service", name, n)
			}
		}
	}
	for _, n := range []string{"crdb1", "crdb2", "crdb3", "prometheus", "grafana"} {
		if _, ok := file.Services[n]; !ok {
			t.Errorf("there is no %s", n)
		}
	}
	var rules struct {
		Files []string `yaml:"rule_files"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "compose/prometheus.yaml")), &rules); err != nil || !slices.Equal(rules.Files, []string{"alerts.yaml"}) {
		t.Errorf("rules: %v %v", rules, err)
	}
}
