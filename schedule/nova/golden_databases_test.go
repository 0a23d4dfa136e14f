package nova_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/testlong"
	"cellgate/schedule"
	"cellgate/schedule/nova"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(legacytest.Stop)) }

// goldenRows are the rows of a case, unparsed.
type goldenRows struct {
	ID    string `json:"id"`
	Cells []struct {
		UUID     string `json:"uuid"`
		Disabled bool   `json:"disabled"`
	} `json:"cells"`
	ComputeNodes []legacytest.Row `json:"compute_nodes"`
	Services     []legacytest.Row `json:"services"`
	Instances    []legacytest.Row `json:"instances"`
	Aggregates   []struct {
		UUID     string            `json:"uuid"`
		Name     string            `json:"name"`
		Hosts    []string          `json:"hosts"`
		Metadata map[string]string `json:"metadata"`
	} `json:"aggregates"`
}

// TestGoldenFromDatabases writes the rows of golden cases into Nova's own tables, and reads them with
// gateway/legacy/novadb. The resulting hosts must pass TestGolden like those made from the lines. Without
// CELLGATE_LONG, MariaDB gets each sixth case and PostgreSQL each twelfth.
func TestGoldenFromDatabases(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: 600 cases in databases take a minute")
	}
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		every := 1
		if !testlong.On() {
			every = map[legacytest.Kind]int{legacytest.MariaDB: 6, legacytest.PostgreSQL: 12}[k]
		}
		want := nova.RunGolden(t, eachOf(every, nova.LoadGoldenCases(t)))
		start := time.Now()
		clouds := newClouds(t, k)
		cases, rows := eachOf(every, nova.LoadGoldenCases(t)), eachOf(every, loadRows(t))
		hosts := 0
		for i, c := range cases {
			if c.ID != rows[i].ID {
				t.Fatalf("%s and %s", c.ID, rows[i].ID)
			}
			hosts += clouds.move(c, &rows[i])
		}
		t.Logf("%d hosts of %d cases through %s in %v", hosts, len(cases), k, time.Since(start).Round(time.Second))
		if len(cases) != 600/every || hosts < 5000/every {
			t.Errorf("%d hosts of %d cases", hosts, len(cases))
		}
		if got := nova.RunGolden(t, cases); got != want {
			t.Errorf("from the databases:%s\nfrom the lines:%s", got, want)
		}
	})
}

// eachOf gives the first element, and each n-th after it.
func eachOf[T any](n int, all []T) (some []T) {
	for i := 0; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

func loadRows(t *testing.T) []goldenRows {
	t.Helper()
	f, err := os.Open(nova.GoldenFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // the file was only read
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []goldenRows
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var g goldenRows
		d := json.NewDecoder(strings.NewReader(lines.Text()))
		d.UseNumber()
		if err := d.Decode(&g); err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// clouds are an API database and the databases of three cells, which hold one case at a time.
type clouds struct {
	*testing.T
	api     *legacytest.Database
	cells   []*legacytest.Database
	readers map[string]*novadb.Reader
}

func newClouds(t *testing.T, k legacytest.Kind) *clouds {
	t.Helper()
	s := k.Shared(t)
	w := &clouds{T: t, api: legacytest.NewAPI(t, s), readers: map[string]*novadb.Reader{}}
	for range 3 {
		w.cells = append(w.cells, legacytest.NewCell(t, s))
	}
	t.Cleanup(func() {
		for _, r := range w.readers {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return w
}

// move writes a case's rows, and gives the case the hosts that it reads back. It returns their
// number.
func (w *clouds) move(c *nova.GoldenCase, g *goldenRows) (n int) {
	w.Helper()
	w.write(g)
	var hosts []novadb.Host
	on := map[schedule.ID][]schedule.ID{}
	for i, cell := range g.Cells {
		if !c.Searched(cell.UUID) {
			continue
		}
		r := w.reader(i, c.RowOptions())
		x, err := r.Load(w.Context())
		if err != nil {
			w.Fatalf("%s: %v", c.ID, err)
		}
		if x.CellUUID != cell.UUID || x.CellDisabled != cell.Disabled {
			w.Fatalf("%s: cell %s, disabled: %t", c.ID, x.CellUUID, x.CellDisabled)
		}
		here := slices.Clone(x.Hosts)
		for k := range here { // their state at the case's time
			of := slices.IndexFunc(x.Services, func(s novadb.Service) bool { return s.ID == here[k].ServiceID })
			here[k].Down = !x.Up(&x.Services[of], c.Time(), c.RowOptions().ServiceDownTime)
		}
		hosts = append(hosts, here...)
		byHost := map[string][]schedule.ID{}
		for p, err := range r.Instances(w.Context(), novadb.InstancePoint{}) {
			if err != nil {
				w.Fatalf("%s: %v", c.ID, err)
			}
			for _, i := range p.Instances {
				id, err := schedule.ParseID(i.UUID)
				if err != nil {
					w.Fatalf("%s: %v", c.ID, err)
				}
				byHost[i.Host] = append(byHost[i.Host], id)
			}
		}
		n += len(x.Hosts)
		for _, h := range here {
			on[h.UUID] = byHost[h.ServiceHost]
		}
	}
	slices.SortFunc(hosts, func(a, b novadb.Host) int { return int(a.NodeID - b.NodeID) })
	plain := make([]schedule.Host, 0, len(hosts))
	for _, h := range hosts {
		plain = append(plain, h.Host)
	}
	c.SetHosts(plain, on)
	return n
}

// reader gives the reader of a cell for the options of a case.
func (w *clouds) reader(cell int, o nova.GoldenOptions) *novadb.Reader {
	w.Helper()
	key := fmt.Sprint(cell, o)
	if w.readers[key] == nil {
		r, err := novadb.Open(w.Context(), novadb.Config{
			Cell: cellName(cell), Database: novadb.Database{URL: w.cells[cell].URL}, API: novadb.Database{URL: w.api.URL},
			Ratios:          novadb.Ratios{CPU: o.CPU, RAM: o.RAM, Disk: o.Disk, InitialCPU: o.InitialCPU, InitialRAM: o.InitialRAM, InitialDisk: o.InitialDisk},
			ServiceDownTime: o.ServiceDownTime, KeepUnreadable: true, Connections: 1, QueryTimeout: time.Minute,
		})
		if err != nil {
			w.Fatal(err)
		}
		w.readers[key] = r
	}
	return w.readers[key]
}

func cellName(i int) string { return fmt.Sprintf("cell%d", i) }

// write replaces all rows of the databases by those of a case. Ids are positions in the case's
// lists, over all cells.
func (w *clouds) write(g *goldenRows) {
	w.Helper()
	w.api.Empty(w)
	var cells, mappings, aggregates, members, metadata []legacytest.Row
	at := map[string]int{}
	for i, c := range g.Cells {
		w.cells[i].Empty(w)
		at[c.UUID] = i
		cells = append(cells, legacytest.Row{"id": i + 1, "uuid": c.UUID, "name": cellName(i), "disabled": c.Disabled})
	}
	cellOf := func(r legacytest.Row) int {
		uuid, _ := r["cell_uuid"].(string) // absent: the first cell
		return at[uuid]
	}
	mapped := map[any]bool{}
	for _, r := range g.ComputeNodes {
		if !mapped[r["host"]] {
			mapped[r["host"]] = true
			mappings = append(mappings, legacytest.Row{"cell_id": cellOf(r) + 1, "host": r["host"]})
		}
	}
	for i, a := range g.Aggregates {
		aggregates = append(aggregates, legacytest.Row{"id": i + 1, "uuid": a.UUID, "name": a.Name})
		for _, h := range a.Hosts {
			members = append(members, legacytest.Row{"aggregate_id": i + 1, "host": h})
		}
		for k, v := range a.Metadata {
			metadata = append(metadata, legacytest.Row{"aggregate_id": i + 1, "key": k, "value": v})
		}
	}
	w.api.Insert(w, "cell_mappings", cells...)
	w.api.Insert(w, "host_mappings", mappings...)
	w.api.Insert(w, "aggregates", aggregates...)
	w.api.Insert(w, "aggregate_hosts", members...)
	w.api.Insert(w, "aggregate_metadata", metadata...)
	for table, rows := range map[string][]legacytest.Row{"compute_nodes": g.ComputeNodes, "services": g.Services, "instances": g.Instances} {
		parts := make([][]legacytest.Row, len(g.Cells))
		for i, r := range complete(table, rows) {
			r["id"] = i + 1
			cell := cellOf(r)
			delete(r, "cell_uuid")
			parts[cell] = append(parts[cell], r)
		}
		for i, rows := range parts {
			w.cells[i].Insert(w, table, rows...)
		}
	}
}

// complete gives all rows of a table the same columns, with defaults for absent values, and formats
// times as databases do.
func complete(table string, rows []legacytest.Row) []legacytest.Row {
	columns := map[string]any{"deleted": 0}
	if table == "services" {
		columns["report_count"] = 0
	}
	for _, r := range rows {
		for c := range r {
			if _, there := columns[c]; !there {
				columns[c] = nil
			}
		}
	}
	for _, r := range rows {
		for c, absent := range columns {
			if _, there := r[c]; !there {
				r[c] = absent
			}
			if s, ok := r[c].(string); ok && (strings.HasSuffix(c, "_at") || c == "last_seen_up") {
				r[c] = strings.TrimSuffix(strings.Replace(s, "T", " ", 1), "Z")
			}
		}
	}
	return rows
}
