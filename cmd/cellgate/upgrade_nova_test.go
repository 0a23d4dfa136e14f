package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"cellgate/agent"
	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/testwait"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// Sizes and versions of every compute. Computes are small, so that two instances too many on a host
// are noticed.
const (
	computeVCPUs, computeMemoryMB, computeDiskGB = 8, 16384, 200
	oldCompute, newCompute                       = 61, 66
)

// demoCell is one cell of a simulated Nova: a real database with Nova's tables, and computes that
// write to it as nova-compute does.
type demoCell struct {
	t        testing.TB
	number   int
	name     string
	uuid     string
	db       *legacytest.Database
	computes map[string]*compute // by host

	// used counts the VCPUs in use, peak is their maximum.
	mu         sync.Mutex
	used, peak int
}

// use adds VCPUs to those in use, or subtracts them.
func (c *demoCell) use(vcpus int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used += int(vcpus)
	c.peak = max(c.peak, c.used)
}

// full returns the fraction of the cell's VCPUs that is in use, and its maximum.
func (c *demoCell) full() (now, peak float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := float64(len(c.computes) * computeVCPUs)
	return float64(c.used) / all, float64(c.peak) / all
}

// compute is one host: nova-compute and, once upgraded, an agent.
type compute struct {
	cell *demoCell
	n    int
	host string
	uuid string

	mu        sync.Mutex
	instances map[string]*agentv1.Instance
	// over counts instances that were built beyond the host's capacity.
	over  int
	agent *agent.Host
	stop  func()
	// unlisted is an instance that is missing from the agent's report.
	unlisted string
	// says modifies the agent's report, unless nil.
	says func(*agentv1.FullState)
	// other is other data on the disk, in GB. periodic: the disk is measured only by measure, as in
	// nova-compute's update_available_resource, not with each instance.
	other    int32
	periodic bool
}

func (c *compute) has() (vcpus, memoryMB, diskGB int32) {
	for _, i := range c.instances {
		vcpus, memoryMB, diskGB = vcpus+i.Usages[0].Amount, memoryMB+i.Usages[1].Amount, diskGB+i.Usages[2].Amount
	}
	return vcpus, memoryMB, diskGB
}

// newDemoCell creates the rows of a cell whose computes are all old.
func newDemoCell(t testing.TB, s legacytest.Server, api *legacytest.Database, number, hosts int) *demoCell {
	t.Helper()
	c := &demoCell{
		t: t, number: number, name: fmt.Sprintf("cell%d", number), uuid: fmt.Sprintf("c0000000-0000-4000-8000-%012d", number),
		db: legacytest.NewCell(t, s), computes: map[string]*compute{},
	}
	c.db.DB.SetMaxOpenConns(8) // the server's are for the gateways too
	now := c.db.Now(t)
	api.Insert(t, "cell_mappings", legacytest.Row{"id": number, "uuid": c.uuid, "name": c.name})
	var nodes, services, mappings []legacytest.Row
	for i := range hosts {
		id := number*10000 + i
		k := &compute{cell: c, n: i + 1, host: fmt.Sprintf("%s-h%03d", c.name, i+1), uuid: fmt.Sprintf("a%07d-0000-4000-8000-%012d", number, i+1), instances: map[string]*agentv1.Instance{}}
		c.computes[k.host] = k
		nodes = append(nodes, legacytest.Row{
			"id": i + 1, "uuid": k.uuid, "host": k.host, "hypervisor_hostname": k.host, "deleted": 0, "mapped": 1,
			"created_at": now.Add(-240 * time.Hour), "updated_at": now.Add(-time.Hour),
			"vcpus": computeVCPUs, "vcpus_used": 0, "memory_mb": computeMemoryMB, "memory_mb_used": 0, "free_ram_mb": computeMemoryMB,
			"local_gb": computeDiskGB, "local_gb_used": 0, "free_disk_gb": computeDiskGB, "disk_available_least": computeDiskGB,
			"hypervisor_type": "QEMU", "hypervisor_version": 6002000, "host_ip": "10.0.0.1", "cpu_info": `{"arch": "x86_64"}`,
			"supported_instances": `[["x86_64", "kvm", "hvm"]]`, "metrics": "[]", "stats": `{"num_instances": "0", "io_workload": "0"}`,
			"cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0, "disk_allocation_ratio": 1.0,
		})
		services = append(services, legacytest.Row{
			"id": i + 1, "uuid": fmt.Sprintf("b%07d-0000-4000-8000-%012d", number, i+1), "host": k.host, "binary": "nova-compute", "topic": "compute",
			"report_count": 1, "disabled": false, "forced_down": false, "deleted": 0, "version": oldCompute,
			"created_at": now.Add(-240 * time.Hour), "last_seen_up": now, "updated_at": now,
		})
		mappings = append(mappings, legacytest.Row{"id": id, "cell_id": number, "host": k.host})
	}
	// A deleted compute, whose version would hold Nova's own gate for ever.
	services = append(services, legacytest.Row{
		"id": hosts + 1, "uuid": fmt.Sprintf("b%07d-0000-4000-8000-%012d", number, hosts+1), "host": c.name + "-gone", "binary": "nova-compute", "topic": "compute",
		"report_count": 1, "disabled": false, "forced_down": false, "deleted": hosts + 1, "deleted_at": now.Add(-100 * time.Hour), "version": 9,
		"created_at": now.Add(-2400 * time.Hour), "last_seen_up": now.Add(-1000 * time.Hour), "updated_at": now.Add(-1000 * time.Hour),
	})
	c.db.Insert(t, "compute_nodes", nodes...)
	c.db.Insert(t, "services", services...)
	api.Insert(t, "host_mappings", mappings...)
	return c
}

// write changes the cell's database. The statement is MySQL's, with a question mark for
// each argument.
func (c *demoCell) write(statement string, args ...any) {
	c.t.Helper()
	if c.db.Kind == legacytest.PostgreSQL {
		statement = strings.ReplaceAll(statement, "UTC_TIMESTAMP()", "(clock_timestamp() AT TIME ZONE 'UTC')")
		for i := range args {
			statement = strings.Replace(statement, "?", c.db.Mark(i+1), 1)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), testwait.Limit)
	defer cancel()
	if _, err := c.db.DB.ExecContext(ctx, statement, args...); err != nil {
		c.t.Errorf("%s: %s: %v", c.name, statement, err)
	}
}

// beat writes every nova-compute's heartbeat, which comes every ten seconds.
func (c *demoCell) beat() {
	c.write("UPDATE services SET report_count = report_count + 1, last_seen_up = UTC_TIMESTAMP(), updated_at = UTC_TIMESTAMP() WHERE deleted = 0")
}

// build does what nova-compute does for a new instance. The instance's row names the host, then the
// host's row has its usage, then the instance is active. The agent reports it.
func (k *compute) build(instance string, vcpus, memoryMB, diskGB int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.instances[instance] = &agentv1.Instance{InstanceUuid: instance, ProjectId: "demo", UserId: "demo", Usages: []*agentv1.Usage{
		{ProviderUuid: k.uuid, ResourceClass: "VCPU", Amount: vcpus},
		{ProviderUuid: k.uuid, ResourceClass: "MEMORY_MB", Amount: memoryMB},
		{ProviderUuid: k.uuid, ResourceClass: "DISK_GB", Amount: diskGB},
	}}
	k.cell.use(vcpus)
	if v, m, d := k.has(); v > computeVCPUs || m > computeMemoryMB || d > computeDiskGB {
		k.over++
	}
	k.cell.write(`INSERT INTO instances (created_at, updated_at, deleted, uuid, host, node, vcpus, memory_mb, root_gb, ephemeral_gb, project_id, user_id, vm_state, hidden, instance_type_id)
		VALUES (UTC_TIMESTAMP(), UTC_TIMESTAMP(), 0, ?, ?, ?, ?, ?, ?, 0, 'demo', 'demo', 'building', ?, 1)`, instance, k.host, k.host, vcpus, memoryMB, diskGB, false)
	k.save()
	k.cell.write("UPDATE instances SET vm_state = 'active', updated_at = UTC_TIMESTAMP() WHERE uuid = ?", instance)
}

// destroy ends an instance.
func (k *compute) destroy(instance string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := k.instances[instance]; i != nil {
		k.cell.use(-i.Usages[0].Amount)
	}
	delete(k.instances, instance)
	k.cell.write("UPDATE instances SET deleted = id, deleted_at = UTC_TIMESTAMP(), vm_state = 'deleted' WHERE uuid = ?", instance)
	k.save()
}

// save writes the host's row, and makes the agent report, if there is one.
func (k *compute) save() {
	v, m, d := k.has()
	k.cell.write(`UPDATE compute_nodes SET updated_at = UTC_TIMESTAMP(), vcpus_used = ?, memory_mb_used = ?, free_ram_mb = memory_mb - ?,
		local_gb_used = ?, free_disk_gb = local_gb - ?, running_vms = ?,
		disk_available_least = CASE WHEN ? = 1 THEN disk_available_least ELSE local_gb - ? END WHERE uuid = ?`, v, m, m, d, d, len(k.instances), map[bool]int{true: 1}[k.periodic], d+k.other, k.uuid)
	if k.agent != nil {
		k.agent.Put(k.state())
	}
}

// state is what the host's agent reports.
func (k *compute) state() *agentv1.FullState {
	inventory := func(class string, total int32) *agentv1.Inventory {
		return &agentv1.Inventory{ResourceClass: class, Total: total, AllocationRatio: 1}
	}
	s := &agentv1.FullState{
		Cell: k.cell.name, AgentVersion: agent.Version, HostUuid: k.uuid, ServiceHost: k.host, Nodename: k.host,
		HypervisorType: "QEMU", HypervisorVersion: 6002000, HostIp: "10.0.0.1",
		Facts:     &agentv1.Facts{CpuInfo: `{"arch": "x86_64"}`, SupportedInstances: `[["x86_64", "kvm", "hvm"]]`, Stats: fmt.Sprintf(`{"num_instances": "%d", "io_workload": "0"}`, len(k.instances)), Metrics: "[]"},
		Providers: []*agentv1.Provider{{Uuid: k.uuid, Name: k.host, Inventories: []*agentv1.Inventory{inventory("VCPU", computeVCPUs), inventory("MEMORY_MB", computeMemoryMB), inventory("DISK_GB", computeDiskGB)}}},
	}
	for id, i := range k.instances {
		if id != k.unlisted {
			s.Instances = append(s.Instances, i)
		}
	}
	if k.says != nil {
		k.says(s)
	}
	return s
}

// reports sets how the agent's report differs from the host from now on. nil means not at all.
func (k *compute) reports(says func(*agentv1.FullState)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.says = says; k.agent != nil {
		k.agent.Put(k.state())
	}
}

// lists sets which instance is missing from the agent's report from now on, or "" for none.
func (k *compute) lists(allBut string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.unlisted = allBut; k.agent != nil {
		k.agent.Put(k.state())
	}
}

// upgrade starts the new nova-compute, and the host's agent.
func (k *compute) upgrade(conn grpc.ClientConnInterface) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cell.write("UPDATE services SET version = ?, updated_at = UTC_TIMESTAMP(), last_seen_up = UTC_TIMESTAMP() WHERE host = ? AND deleted = 0", newCompute, k.host)
	k.agent = agent.NewHost(k.state())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	reporter := agent.NewReporter(agent.ReporterDeps{Client: agentv1.NewHostReportsClient(conn)}, k.agent)
	go func() {
		defer close(done)
		if err := reporter.Run(ctx); err != nil {
			k.cell.t.Errorf("the agent of %s: %v", k.host, err)
		}
	}()
	k.stop = func() { cancel(); <-done }
}

// downgrade reinstalls the old nova-compute and removes the agent.
func (k *compute) downgrade() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopAgent()
	k.cell.write("UPDATE services SET version = ?, updated_at = UTC_TIMESTAMP(), last_seen_up = UTC_TIMESTAMP() WHERE host = ? AND deleted = 0", oldCompute, k.host)
}

func (k *compute) stopAgent() {
	if k.stop != nil {
		k.stop()
		k.stop, k.agent = nil, nil
	}
}

// upgraded counts the computes that have an agent.
func (c *demoCell) upgraded() int {
	n := 0
	for _, k := range c.computes {
		k.mu.Lock()
		if k.agent != nil {
			n++
		}
		k.mu.Unlock()
	}
	return n
}

// over lists the hosts that exceeded their capacity, and those whose row shows that.
func (c *demoCell) over() []string {
	var bad []string
	for _, k := range c.computes {
		k.mu.Lock()
		if k.over > 0 {
			bad = append(bad, fmt.Sprintf("%s: %d times", k.host, k.over))
		}
		k.mu.Unlock()
	}
	var rows int
	if err := c.db.DB.QueryRowContext(c.t.Context(), "SELECT COUNT(*) FROM compute_nodes WHERE vcpus_used > vcpus OR memory_mb_used > memory_mb OR local_gb_used > local_gb").Scan(&rows); err != nil {
		c.t.Error(err)
	} else if rows > 0 {
		bad = append(bad, fmt.Sprintf("%d rows of %s", rows, c.name))
	}
	return bad
}

// order returns the computes sorted by name.
func (c *demoCell) order() []*compute {
	list := make([]*compute, len(c.computes))
	for _, k := range c.computes {
		list[k.n-1] = k
	}
	return list
}

func hostOfName(cells []*demoCell, host string) *compute {
	for _, c := range cells {
		if strings.HasPrefix(host, c.name+"-") {
			return c.computes[host]
		}
	}
	return nil
}
