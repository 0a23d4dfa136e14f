package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/serverproc"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// cellgateConns are the connections that the callers share.
	cellgateConns = 2
	// leaseSeconds is longer than any step.
	leaseSeconds = 3600
)

// novaConf gives the nova.conf of an order; empty for Nova's defaults. Of hosts that weigh the same any is chosen.
func novaConf(o order) string {
	multiplier, changed := map[order]string{packFirst: "-1.0", random: "0.0"}[o]
	if !changed {
		return ""
	}
	return fmt.Sprintf("[filter_scheduler]\nram_weight_multiplier = %[1]s\ncpu_weight_multiplier = %[1]s\ndisk_weight_multiplier = %[1]s\n", multiplier)
}

// cellgate is `cellgate dev` with one cell.
type cellgate struct {
	serverproc.Process
	conns []*grpc.ClientConn
	next  atomic.Int64

	mu sync.Mutex
	// made are the claims, by consumer.
	made map[string]*cellgatev1.ReleaseClaimRequest
}

// startCellgate starts the binary and waits until every host is registered. The caller removes it.
func startCellgate(binary string, hosts int, o order) (*cellgate, error) {
	c := &cellgate{made: map[string]*cellgatev1.ReleaseClaimRequest{}}
	c.Process = serverproc.Process{
		Name: "cellgate", End: syscall.SIGTERM, Last: syscall.SIGKILL, Ping: func(ctx context.Context) error { return c.ready(ctx, hosts) },
		Command: func() *exec.Cmd {
			args := []string{
				"dev", "--cells", "1", "--hosts", strconv.Itoa(hosts), "--data", filepath.Join(c.Dir, "data"),
				"--http", "127.0.0.1:0", "--grpc", c.Addr(), "--cell-base-port", "0", "--log-level", "warn",
			}
			if novaConf(o) != "" {
				args = append(args, "--nova-conf", filepath.Join(c.Dir, "nova.conf"))
			}
			return exec.Command(binary, args...)
		},
	}
	err := c.Start(func() error {
		return os.WriteFile(filepath.Join(c.Dir, "nova.conf"), []byte(novaConf(o)), 0o600)
	})
	if err != nil {
		return nil, err
	}
	for range cellgateConns {
		conn, err := rpc.Dial(c.Addr())
		if err != nil {
			return nil, errors.Join(err, c.Remove())
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

// ready fails until the cell has its hosts.
func (c *cellgate) ready(ctx context.Context, hosts int) error {
	conn, err := rpc.Dial(c.Addr())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // its call is over
	out, err := cellgatev1.NewCellsClient(conn).ListCells(ctx, &cellgatev1.ListCellsRequest{})
	if err != nil {
		return err
	}
	if len(out.GetCells()) != 1 || int(out.GetCells()[0].GetHosts()) != hosts {
		return fmt.Errorf("cells: %v, want one with %d hosts", out.GetCells(), hosts)
	}
	return nil
}

func (c *cellgate) Remove() error {
	for _, conn := range c.conns {
		_ = conn.Close() // its calls are over
	}
	return c.Process.Remove()
}

func (c *cellgate) conn() *grpc.ClientConn {
	return c.conns[c.next.Add(1)%int64(len(c.conns))]
}

// hosts lists all hosts.
func (c *cellgate) hosts(ctx context.Context) (all []*cellgatev1.Host, err error) {
	req := &cellgatev1.ListHostsRequest{PageSize: 1000}
	for {
		out, err := cellgatev1.NewHostsClient(c.conn()).ListHosts(ctx, req)
		if err != nil {
			return nil, err
		}
		all = append(all, out.GetHosts()...)
		if req.PageToken = out.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// claim places an instance. A race that cellgate lost and won elsewhere is in lostRaces, not in lost.
func (c *cellgate) claim(ctx context.Context, consumer string) (lost int, err error) {
	for {
		out, err := cellgatev1.NewSchedulerClient(c.conn()).SelectDestinations(ctx, &cellgatev1.SelectDestinationsRequest{
			InstanceUuids: []string{consumer}, ClaimTtl: &durationpb.Duration{Seconds: leaseSeconds},
			Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
				ProjectId: project, Flavor: &cellgatev1.Flavor{Vcpus: claimVCPUs, MemoryMb: claimMemoryMB, RootGb: claimDiskGB},
			}},
		})
		if fault.KindOf(err) == fault.Contended && lost < mostTries {
			lost++
			continue
		}
		if err != nil {
			return lost, err
		}
		d := out.GetDestinations()[0]
		c.mu.Lock()
		defer c.mu.Unlock()
		c.made[consumer] = &cellgatev1.ReleaseClaimRequest{ConsumerUuid: consumer, ClaimId: d.GetSelected().GetClaimId(), Cell: d.GetSelected().GetCell()}
		return lost, nil
	}
}

// free releases the claim; a consumer without one needs nothing.
func (c *cellgate) free(ctx context.Context, consumer string) error {
	c.mu.Lock()
	req := c.made[consumer]
	delete(c.made, consumer)
	c.mu.Unlock()
	if req == nil {
		return nil
	}
	_, err := cellgatev1.NewClaimsClient(c.conn()).ReleaseClaim(ctx, req)
	return err
}

var (
	restAddress   = regexp.MustCompile(`REST +(http://\S+)`)
	claimsRefused = regexp.MustCompile(`(?m)^cellgate_gateway_claims_total\{[^}]*end="refused"[^}]*\} (\d+)`)
)

// lostRaces is how many claims the cell refused so far, because another one was given the host first.
func (c *cellgate) lostRaces(ctx context.Context) (int, error) {
	log, err := os.ReadFile(c.Log())
	if err != nil {
		return 0, err
	}
	address := restAddress.FindSubmatch(log)
	if address == nil {
		return 0, fmt.Errorf("no address of REST in %s", log)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, string(address[1])+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, err
	}
	found := claimsRefused.FindSubmatch(text)
	if found == nil {
		return 0, nil // none was refused yet
	}
	return strconv.Atoi(string(found[1]))
}

func isDisabled(h *cellgatev1.Host) bool {
	return !h.GetEnabled() || slices.Contains(h.GetTraits(), statusDisabled)
}

// room is how many claims fit on the hosts.
func room(hosts []*cellgatev1.Host) (n int) {
	size := map[string]int{"VCPU": claimVCPUs, "MEMORY_MB": claimMemoryMB, "DISK_GB": claimDiskGB}
	for _, h := range hosts {
		if isDisabled(h) {
			continue
		}
		fits, classes := 0, 0
		for _, i := range h.GetInventories() {
			one := size[i.GetResourceClass()]
			if one == 0 || i.GetProviderUuid() != h.GetHostUuid() {
				continue
			}
			free := int(float64(i.GetTotal()-i.GetReserved())*i.GetAllocationRatio()) - int(i.GetUsed()+i.GetUnaccounted())
			if k := max(free, 0) / one; classes == 0 || k < fits {
				fits = k
			}
			classes++
		}
		if classes == len(size) {
			n += fits
		}
	}
	return n
}
