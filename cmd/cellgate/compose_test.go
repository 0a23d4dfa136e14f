package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"cellgate/internal/config"
)

// composeService is the part of a service of deploy/compose.yaml that this test reads.
type composeService struct {
	Image   string
	Build   struct{ Context, Dockerfile string }
	Command yaml.Node
	Volumes []string
	Ports   []string
}

func composeServices(t *testing.T) map[string]composeService {
	t.Helper()
	var file struct{ Services map[string]composeService }
	if err := yaml.Unmarshal([]byte(readFile(t, deploy+"/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	return file.Services
}

// composed returns the configuration of each cellgate process of the file, by service, as the
// command loads it.
func composed(t *testing.T) map[string]config.Config {
	t.Helper()
	out := map[string]config.Config{}
	for name, s := range composeServices(t) {
		if s.Build.Dockerfile == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(deploy, s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var args []string
		if err := s.Command.Decode(&args); err != nil {
			t.Fatalf("%s: its command is no list: %v", name, err)
		}
		for i, arg := range args {
			if inside, ok := strings.CutPrefix(arg, "/etc/cellgate/compose/"); ok {
				args[i] = filepath.Join(deploy, "compose", inside)
				if !slices.Contains(s.Volumes, "./compose:/etc/cellgate/compose:ro") {
					t.Errorf("%s has no volume with %s", name, arg)
				}
			}
		}
		root := newRoot(terminal{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
		cmd, rest, err := root.Find(args)
		if err != nil || cmd == root {
			t.Errorf("%s: %v is no command: %v", name, args, err)
			continue
		}
		// The same flags, bound to be loaded here.
		flags := *cmd
		flags.ResetFlags()
		load := bindKeys(&flags, cmd.Name(), nil)
		if err := flags.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v: %v", name, rest, err)
			continue
		}
		if len(flags.Flags().Args()) > 0 {
			t.Errorf("%s: arguments %v", name, flags.Flags().Args())
		}
		c, err := load()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		out[name] = c
	}
	return out
}

// port returns the port of a service, which must listen on every address of its container.
func port(t *testing.T, service, address string) string {
	t.Helper()
	host, p, err := net.SplitHostPort(address)
	if err != nil || host != "0.0.0.0" {
		t.Errorf("%s listens on %q: %v", service, address, err)
	}
	return p
}

func TestComposeIsOneSystem(t *testing.T) {
	services, all := composeServices(t), composed(t)
	if len(all) != 11 {
		t.Fatalf("%d services of cellgate's, want 2 gateways, 6 replicas and 3 fleets", len(all))
	}
	// The gateways' and agents' configuration of a cell must match the cell's replicas.
	replicas, uuids, stores := map[string][]string{}, map[string]string{}, map[string]string{}
	names := map[string]bool{}
	for name, c := range all {
		if c.Cell.Name == "" {
			continue
		}
		cell := c.Cell
		if names[cell.Replica] {
			t.Errorf("two replicas are %q", cell.Replica)
		}
		names[cell.Replica] = true
		if known, ok := stores[cell.Name]; ok && (known != cell.Store || uuids[cell.Name] != cell.UUID) {
			t.Errorf("replicas of %s have not one shard", cell.Name)
		}
		for other, store := range stores {
			if other != cell.Name && store == cell.Store {
				t.Errorf("%s and %s have one shard", other, cell.Name)
			}
		}
		stores[cell.Name], uuids[cell.Name] = cell.Store, cell.UUID
		replicas[cell.Name] = append(replicas[cell.Name], net.JoinHostPort(name, port(t, name, cell.GRPC)))
		for _, host := range strings.Split(storeHosts(t, cell.Store), ",") {
			if services[host].Image == "" {
				t.Errorf("%s: its database is on %q, which is no service", name, host)
			}
		}
		if !cell.StoreMigrate {
			t.Errorf("%s: nobody makes its database", name)
		}
	}
	if len(replicas) != 3 {
		t.Errorf("cells: %v", replicas)
	}
	for _, r := range replicas {
		if slices.Sort(r); len(r) != 2 {
			t.Errorf("replicas: %v", r)
		}
	}
	gateways, fleets := 0, map[string]bool{}
	for name, c := range all {
		switch {
		case len(c.Gateway.Cells) > 0:
			gateways++
			if len(c.Gateway.Cells) != len(replicas) {
				t.Errorf("%s has %d cells", name, len(c.Gateway.Cells))
			}
			for _, cell := range c.Gateway.Cells {
				if cell.UUID != uuids[cell.Name] || !slices.Equal(cell.Replicas, replicas[cell.Name]) {
					t.Errorf("%s: %s is %s at %v, want %s at %v", name, cell.Name, cell.UUID, cell.Replicas, uuids[cell.Name], replicas[cell.Name])
				}
			}
			http, grpc := port(t, name, c.Gateway.HTTP), port(t, name, c.Gateway.GRPC)
			for _, p := range services[name].Ports {
				if !strings.HasPrefix(p, "127.0.0.1:") || !strings.HasSuffix(p, ":"+http) && !strings.HasSuffix(p, ":"+grpc) {
					t.Errorf("%s: port %s is not loopback's, or nobody listens there", name, p)
				}
			}
		case c.Agent.Cell != "":
			fleets[c.Agent.Cell] = true
			if !slices.Equal(c.Agent.Replicas, replicas[c.Agent.Cell]) {
				t.Errorf("%s reports to %v, want %v", name, c.Agent.Replicas, replicas[c.Agent.Cell])
			}
		}
	}
	if gateways != 2 || len(fleets) != 3 {
		t.Errorf("%d gateways, fleets of %v", gateways, fleets)
	}
}

// storeHosts gives the hosts of a database's URL, separated by commas.
func storeHosts(t *testing.T, store string) string {
	t.Helper()
	_, query, ok := strings.Cut(store, "?")
	for _, pair := range strings.Split(query, "&") {
		if hosts, is := strings.CutPrefix(pair, "host="); ok && is {
			return hosts
		}
	}
	t.Errorf("%s names no hosts", store)
	return ""
}

// Prometheus scrapes every cellgate process where it serves /metrics.
func TestComposeScrapesEveryProcess(t *testing.T) {
	var file struct {
		Scrape []struct {
			Job    string                       `yaml:"job_name"`
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, deploy+"/compose/prometheus.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, s := range file.Scrape {
		for _, c := range s.Static {
			got[s.Job] = append(got[s.Job], c.Targets...)
		}
		slices.Sort(got[s.Job])
	}
	want := map[string][]string{}
	for name, c := range composed(t) {
		switch {
		case c.Cell.Name != "":
			want["cellgate-cell"] = append(want["cellgate-cell"], net.JoinHostPort(name, port(t, name, c.Cell.Metrics)))
		case c.Agent.Cell != "":
			want["cellgate-agent"] = append(want["cellgate-agent"], net.JoinHostPort(name, port(t, name, c.Agent.Metrics)))
		default:
			want["cellgate-gateway"] = append(want["cellgate-gateway"], net.JoinHostPort(name, port(t, name, c.Gateway.HTTP)))
		}
	}
	want["cockroachdb"] = []string{"crdb1:8080", "crdb2:8080", "crdb3:8080"}
	for job, targets := range want {
		if slices.Sort(targets); !slices.Equal(got[job], targets) {
			t.Errorf("%s: %v are asked, there are %v", job, got[job], targets)
		}
	}
	if len(got) != len(want) {
		t.Errorf("jobs: %v", got)
	}
}
