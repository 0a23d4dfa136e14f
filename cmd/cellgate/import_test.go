package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cellgate/gateway/legacy/importer"
	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/testaddr"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// takingCell accepts imports, and lists what it accepted.
type takingCell struct {
	listingCell
	mu     sync.Mutex
	calls  int
	refuse string
}

func (c *takingCell) ImportHosts(_ context.Context, in *cellv1.ImportHostsRequest) (*cellv1.ImportHostsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	out := &cellv1.ImportHostsResponse{}
	for _, h := range in.GetHosts() {
		s, o := h.GetState(), &cellv1.ImportOutcome{}
		out.Outcomes = append(out.Outcomes, o)
		if s.GetServiceHost() == c.refuse {
			o.Failure = &cellv1.Failure{Reason: "INVALID_REQUEST", Message: "no room for it"}
			continue
		}
		host := &cellgatev1.Host{HostUuid: s.GetHostUuid(), ServiceHost: s.GetServiceHost(), Nodename: s.GetNodename(), Enabled: !s.GetDisabled(), Imported: true}
		for _, i := range s.GetProviders()[0].GetInventories() {
			host.Inventories = append(host.Inventories, &cellgatev1.HostInventory{ResourceClass: i.GetResourceClass(), Total: i.GetTotal(), Unaccounted: i.GetUnaccounted(), AllocationRatio: i.GetAllocationRatio()})
		}
		known := false
		for k, old := range c.hosts {
			if old.GetHostUuid() == host.GetHostUuid() {
				c.hosts[k], known = host, true
			}
		}
		if !known {
			c.hosts = append(c.hosts, host)
		}
		for _, i := range s.GetInstances() {
			if known {
				continue
			}
			o.Adopted++
			claim := &cellgatev1.Claim{ClaimId: i.GetInstanceUuid(), ConsumerUuid: i.GetInstanceUuid(), HostUuid: s.GetHostUuid(), State: cellgatev1.ClaimState_CONFIRMED, Adopted: true}
			for _, u := range i.GetUsages() {
				claim.Allocations = append(claim.Allocations, &cellgatev1.Allocation{ProviderUuid: u.GetProviderUuid(), ResourceClass: u.GetResourceClass(), Amount: u.GetAmount()})
			}
			c.claims = append(c.claims, claim)
		}
	}
	return out, nil
}

func (c *takingCell) ListHosts(ctx context.Context, in *cellv1.ListHostsRequest) (*cellv1.ListHostsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listingCell.ListHosts(ctx, in)
}

func (c *takingCell) ListClaims(ctx context.Context, in *cellv1.ListClaimsRequest) (*cellv1.ListClaimsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listingCell.ListClaims(ctx, in)
}

// The nova_conf of the gateway's file also applies to the import.
func TestImport_BusByNovaConf_ReadsIt(t *testing.T) {
	dir := t.TempDir()
	conf, file := filepath.Join(dir, "nova.conf"), filepath.Join(dir, "gateway.yaml")
	for path, text := range map[string]string{
		conf: "[DEFAULT]\ntransport_url = rabbit://u:p@127.0.0.1:5672/\n",
		file: "gateway: {nova_conf: [" + conf + "], bus: {enabled: true}, cells: [{name: cell1, replicas: [\"127.0.0.1:1\"]}]}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, text, status := typed(t.Context(), "", "import", "--cell", "cell9", "--dry-run", "--config", file)
	if status != exitUsage || !strings.Contains(text, `--cell: "cell9" is none of gateway.legacy`) {
		t.Errorf("status %d, %s", status, text)
	}
}

// A dry run writes nothing and shows what it would write. An import writes it, and afterwards
// nothing differs.
func TestImport(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		cell := &takingCell{}
		c := newNovaCell(t, k, 5, serveCell(t, cell))
		c.cell.Insert(t, "instances", c.instance(1, "host1"), c.instance(2, "host2"), c.instance(3, "elsewhere"))
		c.cell.Exec(t, "UPDATE compute_nodes SET uuid = NULL WHERE id = 5")
		run := func(want int, flags ...string) (out imported, text string) {
			t.Helper()
			args := append([]string{"import", "--cell", "cell1", "--config", c.config}, flags...)
			text, errText, status := typed(t.Context(), "", args...)
			if status != want {
				t.Fatalf("%v ended with %d, want %d: %s%s", flags, status, want, text, errText)
			}
			if strings.Contains(strings.Join(flags, " "), "json") {
				if err := json.Unmarshal([]byte(text), &out); err != nil {
					t.Fatal(err)
				}
			}
			return out, text + errText
		}
		dry, _ := run(exitDone, "--dry-run", "-o", "json")
		if cell.calls != 0 || dry.Written != nil || dry.Counts[importer.HostNew] != 4 || dry.Counts[importer.HostLeftOut] != 1 ||
			dry.Counts[importer.InstanceAdopted] != 2 || dry.Counts[importer.InstanceLeftOut] != 1 {
			t.Errorf("%d calls, %+v", cell.calls, dry)
		}
		_, text := run(exitDone, "--dry-run")
		for _, want := range []string{"hosts: new", "instances: to adopt", "host_left_out", "bad_uuid", "nothing was written"} {
			if !strings.Contains(text, want) {
				t.Errorf("nothing of %q in %s", want, text)
			}
		}
		once, _ := run(exitDone, "-o", "json")
		if once.Written == nil || once.Written.Taken < 4 || once.Written.Adopted != 2 || len(cell.hosts) != 4 {
			t.Errorf("%d hosts, %+v", len(cell.hosts), once.Written)
		}
		if dry, _ = run(exitDone, "--dry-run", "-o", "json"); dry.Counts[importer.HostEqual] != 4 || dry.Counts[importer.InstanceEqual] != 2 || len(dry.Lines) != 2 {
			t.Errorf("after the import: %+v", dry)
		}
		cell.mu.Lock()
		cell.refuse = "host3"
		cell.mu.Unlock()
		if _, text := run(exitRefused); !strings.Contains(text, "1 refused") || !strings.Contains(text, "the cell refused 1 host") {
			t.Errorf("a refusal: %s", text)
		}
		for status, flags := range map[int][]string{
			exitUsage:       {"import", "--cell", "cell9", "--config", c.config},
			exitUnreachable: {"import", "--cell", "cell1", "--config", newNovaCell(t, k, 1, testaddr.Dead(t)).config, "--dry-run"},
		} {
			if _, text, got := typed(t.Context(), "", flags...); got != status {
				t.Errorf("%v ended with %d, want %d: %s", flags, got, status, text)
			}
		}
	})
}
