package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"cellgate/internal/mariatest"
	"cellgate/internal/serverproc"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// placementAccount is whom uwsgi runs as when the tests run as root.
	placementAccount = serverproc.Account("nobody")
	// microversion is what Nova Zed asks for.
	microversion = "placement 1.36"
	// mostCandidates is Nova's [scheduler]max_placement_results.
	mostCandidates = 1000
	// mostTries bounds how often a claim is tried again after a 409.
	mostTries = 20
	// statusDisabled keeps a host from new instances (Nova's compute_status_filter).
	statusDisabled = "COMPUTE_STATUS_DISABLED"
	project        = "11111111-1111-4111-8111-111111111111"
	// makingCallers make the providers.
	makingCallers = 4
)

// placementConf is deploy/openstack's, without Keystone.
const placementConf = `[DEFAULT]
log_file = %[1]s/placement.log
state_path = %[1]s
[api]
auth_strategy = noauth2
[placement_database]
connection = mysql+pymysql://root@%[2]s/%[3]s?charset=utf8
`

// uwsgiIni is deploy/openstack's.
const uwsgiIni = `[uwsgi]
plugins = python3
wsgi-file = /usr/bin/placement-api
processes = 2
threads = 1
buffer-size = 65535
master = true
enable-threads = true
thunder-lock = true
lazy-apps = true
no-orphans = true
die-on-term = true
exit-on-reload = true
listen = 100
add-header = Connection: close
http-auto-chunked = true
http-chunked-input = true
http-raw-body = true
wsgi-manage-chunked-input = true
disable-logging = true
env = OS_PLACEMENT_CONFIG_DIR=%s
`

// placement is OpenStack's own Placement.
type placement struct {
	serverproc.Process
	client http.Client
	// known are the hosts that it has.
	known map[string]bool
}

func (p *placement) Remove() error {
	p.client.CloseIdleConnections()
	return p.Process.Remove()
}

func startPlacement(t *testing.T) *placement {
	t.Helper()
	for _, program := range []string{"uwsgi", "placement-manage", "placement-api"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: make peers installs it", err)
		}
	}
	database := mariatest.NewDurable(t)
	name := database.NewDatabase(t)
	return serverproc.Own(t, func() (*placement, error) {
		p := &placement{known: map[string]bool{}}
		p.Process = serverproc.Process{
			Name: "Placement", Account: placementAccount, End: syscall.SIGTERM, Last: syscall.SIGKILL,
			Command: func() *exec.Cmd {
				return exec.Command("uwsgi", "--http-socket", p.Addr(), "--ini", filepath.Join(p.Dir, "uwsgi.ini"))
			},
			Ping: func(ctx context.Context) error {
				return p.call(ctx, http.MethodGet, "/", nil, nil)
			},
		}
		return p, p.Start(func() error {
			conf := fmt.Sprintf(placementConf, p.Dir, database.Addr(), name)
			if err := os.WriteFile(filepath.Join(p.Dir, "placement.conf"), []byte(conf), 0o644); err != nil {
				return err
			}
			sync := exec.Command("placement-manage", "--config-file", filepath.Join(p.Dir, "placement.conf"), "db", "sync")
			sync.Env = append(os.Environ(), "OS_PLACEMENT_CONFIG_DIR="+p.Dir)
			if out, err := sync.CombinedOutput(); err != nil {
				return fmt.Errorf("placement-manage db sync: %w: %s", err, out)
			}
			if err := os.WriteFile(filepath.Join(p.Dir, "uwsgi.ini"), fmt.Appendf(nil, uwsgiIni, p.Dir), 0o644); err != nil {
				return err
			}
			return placementAccount.Give(p.Dir)
		})
	})
}

// refusal is an answer that is not a 2xx.
type refusal struct {
	call string
	code int
	text string
}

func (r *refusal) Error() string { return fmt.Sprintf("%s: HTTP %d: %.200s", r.call, r.code, r.text) }

func hasCode(err error, code int) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == code
}

// call asks Placement, and decodes the answer into out when it is not nil.
func (p *placement) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.Addr()+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("X-Auth-Token", "admin")
	req.Header.Set("OpenStack-API-Version", microversion)
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // all of it is read, or the error is returned
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // the code is the error
		return &refusal{method, resp.StatusCode, string(text)}
	}
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

type object = map[string]any

// addHosts makes a provider of each host that Placement does not have yet, with its inventories, what
// is in use and, where the host is disabled, Nova's trait for that.
func (p *placement) addHosts(ctx context.Context, hosts []*cellgatev1.Host) error {
	fresh := slices.DeleteFunc(slices.Clone(hosts), func(h *cellgatev1.Host) bool { return p.known[h.GetHostUuid()] })
	if len(fresh) == 0 {
		return nil
	}
	began := time.Now()
	var done atomic.Int64
	err := eachOf(slices.Values(fresh), makingCallers, func(h *cellgatev1.Host) error {
		if err := p.addHost(ctx, h); err != nil {
			return fmt.Errorf("%s: %w", h.GetNodename(), err)
		}
		if n := done.Add(1); n%1000 == 0 {
			progress("Placement has %d of %d new providers, after %v", n, len(fresh), time.Since(began).Round(time.Second))
		}
		return nil
	})
	for _, h := range fresh {
		p.known[h.GetHostUuid()] = true
	}
	progress("Placement: %d providers made in %v", len(fresh), time.Since(began).Round(time.Second))
	return err
}

func (p *placement) addHost(ctx context.Context, h *cellgatev1.Host) error {
	path := "/resource_providers/" + h.GetHostUuid()
	if err := p.call(ctx, http.MethodPost, "/resource_providers", object{"name": h.GetNodename(), "uuid": h.GetHostUuid()}, nil); err != nil {
		return err
	}
	inventories, used, most := object{}, map[string]int32{}, map[string]int32{}
	for _, i := range h.GetInventories() {
		class := i.GetResourceClass()
		if i.GetProviderUuid() != h.GetHostUuid() || !slices.Contains(claimedClasses, class) {
			continue // devices and NUMA cells: no claim here asks for them
		}
		inventories[class] = object{
			"total": i.GetTotal(), "reserved": i.GetReserved(), "allocation_ratio": i.GetAllocationRatio(),
			"min_unit": i.GetMinUnit(), "max_unit": i.GetMaxUnit(), "step_size": i.GetStepSize(),
		}
		if i.GetUsed() > 0 {
			used[class], most[class] = i.GetUsed(), i.GetMaxUnit()
		}
	}
	generation := 0
	if err := p.call(ctx, http.MethodPut, path+"/inventories", object{"resource_provider_generation": generation, "inventories": inventories}, nil); err != nil {
		return err
	}
	generation++
	if isDisabled(h) {
		if err := p.call(ctx, http.MethodPut, path+"/traits", object{"resource_provider_generation": generation, "traits": []string{statusDisabled}}, nil); err != nil {
			return err
		}
	}
	// One allocation may have max_unit at most.
	for len(used) > 0 {
		part := object{}
		for class, n := range used {
			part[class] = min(n, most[class])
			if used[class] -= min(n, most[class]); used[class] == 0 {
				delete(used, class)
			}
		}
		if err := p.allocate(ctx, uuid.NewString(), h.GetHostUuid(), part); err != nil {
			return err
		}
	}
	return nil
}

func (p *placement) allocate(ctx context.Context, consumer, host string, resources object) error {
	return p.call(ctx, http.MethodPut, "/allocations/"+consumer, object{
		"allocations": object{host: object{"resources": resources}},
		"project_id":  project, "user_id": project, "consumer_generation": nil,
	}, nil)
}

// candidates is the part of Placement's answer that the choice reads.
type candidates struct {
	Requests []struct {
		Allocations map[string]struct {
			Resources map[string]int `json:"resources"`
		} `json:"allocations"`
	} `json:"allocation_requests"`
	Summaries map[string]struct {
		Resources map[string]struct {
			Capacity int `json:"capacity"`
			Used     int `json:"used"`
		} `json:"resources"`
	} `json:"provider_summaries"`
}

// placementClaims claims at Placement, in an order.
type placementClaims struct {
	*placement
	order order
}

func (c placementClaims) claim(ctx context.Context, consumer string) (lost int, err error) {
	path := fmt.Sprintf("/allocation_candidates?resources=VCPU:%d,MEMORY_MB:%d,DISK_GB:%d&required=!%s&limit=%d",
		claimVCPUs, claimMemoryMB, claimDiskGB, statusDisabled, mostCandidates)
	for {
		var found candidates
		if err := c.call(ctx, http.MethodGet, path, nil, &found); err != nil {
			return lost, err
		}
		host := found.choose(c.order)
		if host == "" {
			return lost, errors.New("no candidates")
		}
		err := c.allocate(ctx, consumer, host, object{"VCPU": claimVCPUs, "MEMORY_MB": claimMemoryMB, "DISK_GB": claimDiskGB})
		if !hasCode(err, http.StatusConflict) {
			return lost, err
		}
		if lost++; lost == mostTries {
			return lost, errors.New("409 " + strconv.Itoa(mostTries) + " times")
		}
	}
}

// free deletes the allocation; one that was not made needs nothing.
func (c placementClaims) free(ctx context.Context, consumer string) error {
	if err := c.call(ctx, http.MethodDelete, "/allocations/"+consumer, nil, nil); !hasCode(err, http.StatusNotFound) {
		return err
	}
	return nil
}

var claimedClasses = []string{"VCPU", "MEMORY_MB", "DISK_GB"}

// choose gives the host that the order wants: by the sum of what is free of each class, normalized
// over the candidates as Nova's weighers do it. Empty when there is no candidate.
func (c *candidates) choose(o order) string {
	var hosts []string
	for _, r := range c.Requests {
		for host := range r.Allocations {
			hosts = append(hosts, host)
		}
	}
	if len(hosts) == 0 {
		return ""
	}
	if o == random {
		return hosts[rand.IntN(len(hosts))]
	}
	weights := make([]float64, len(hosts))
	for _, class := range claimedClasses {
		free := make([]float64, len(hosts))
		for i, host := range hosts {
			r := c.Summaries[host].Resources[class]
			free[i] = float64(r.Capacity - r.Used)
		}
		least, most := slices.Min(free), slices.Max(free)
		if least == most {
			continue
		}
		for i := range free {
			weights[i] += (free[i] - least) / (most - least)
		}
	}
	best := 0
	for i, w := range weights {
		if (o == spread && w > weights[best]) || (o == packFirst && w < weights[best]) {
			best = i
		}
	}
	return hosts[best]
}
