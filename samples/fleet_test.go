package samples

import (
	"crypto/md5"
	"fmt"
	"testing"

	"cellgate/schedule"
	"cellgate/schedule/merge"
)

const (
	fleetCells = MinCells
	fleetRacks = MinHosts / 25
)

func cellUUID(n string) string { return fmt.Sprintf("c0000000-0000-4000-8000-%012s", n) }

func aggregate(n int, name string, metadata map[string]string) schedule.Aggregate {
	return schedule.Aggregate{UUID: fmt.Sprintf("a0000000-0000-4000-8000-%012d", n), Name: name, Metadata: metadata}
}

// size is what hosts of a profile have, at the least that README.md allows.
type size struct {
	vcpus, memoryMB, diskGB int64
	ratio                   int64
}

func profile(h int) size {
	switch {
	case h <= 12:
		return size{[]int64{32, 48, 64}[h%3], []int64{131072, 262144, 524288}[h%3], 2000, 4}
	case h <= 20:
		return size{64, 524288, 4000, 4}
	case h <= 23:
		return size{192, 4194304, 30000, 1}
	}
	return size{64, 524288, 4000, 2}
}

// fleetHost is host h of a rack of README.md's table.
func fleetHost(cell, rack, h int) schedule.Host {
	name := fmt.Sprintf("cell%d-r%02d-h%03d", cell, rack, h)
	p := profile(h)
	host := schedule.Host{
		UUID:        md5.Sum([]byte(name)),
		ServiceHost: name,
		NodeName:    name + ".sim.example",
		Cell:        cellUUID(fmt.Sprint(cell)),
		Disabled:    h == 1 && rack%8 == 4,
		Facts: schedule.ParseFacts(schedule.FactTexts{
			HypervisorType: "QEMU", CPUInfo: `{"arch": "x86_64"}`, Stats: fmt.Sprintf(`{"rack": "r%02d"}`, rack),
			SupportedInstances: `[["i686", "kvm", "hvm"], ["x86_64", "kvm", "hvm"]]`,
		}),
	}
	reserved := int64(8192)
	if rack == 1 && h == 2 {
		reserved = p.memoryMB - 512
	}
	add := func(class string, capacity, most int64) {
		host.Resources = append(host.Resources, schedule.Resource{
			Class: class, Capacity: capacity, MinUnit: 1, MaxUnit: most, StepSize: 1,
		})
	}
	add("VCPU", (p.vcpus-2)*p.ratio, p.vcpus)
	add("MEMORY_MB", p.memoryMB-reserved, p.memoryMB)
	add("DISK_GB", p.diskGB-50, p.diskGB)
	host.View = schedule.View{
		VCPUsTotal: p.vcpus, CPURatio: float64(p.ratio), VCPUsUsed: 2,
		FreeRAMMB: p.memoryMB - reserved, FreeDiskMB: (p.diskGB - 50) * 1024,
	}
	if rack%10 != 0 {
		zone := fmt.Sprintf("az%d", (rack-1)%3+1)
		host.Aggregates = append(host.Aggregates,
			aggregate((rack-1)%3+1, zone, map[string]string{"availability_zone": zone}))
	}
	has := func(yes bool, n int, name string, traits ...string) {
		if !yes {
			return
		}
		host.Traits = append(host.Traits, traits...)
		if n != 0 {
			host.Aggregates = append(host.Aggregates, aggregate(n, name, nil))
		}
	}
	has(true, 0, "", "HW_CPU_X86_AVX2")
	has(h >= 7, 0, "", "HW_CPU_X86_AVX512F")
	has(h >= 4, 0, "", "COMPUTE_VOLUME_MULTI_ATTACH")
	has(h <= 12, 0, "", "STORAGE_DISK_HDD")
	has(h >= 13, 11, "ssd", "STORAGE_DISK_SSD")
	has(h >= 16 && h <= 20 && rack%2 == 0, 12, "gold", "CUSTOM_GOLD")
	has(h == 24, 13, "gpu", "CUSTOM_GPU_A40")
	has(h == 25, 14, "fpga", "CUSTOM_FPGA")
	has(h == 21 && rack%2 == 1, 0, "", "HW_CPU_X86_SGX")
	if h == 24 {
		add("VGPU", 16, 4)
	}
	if h == 25 {
		add("CUSTOM_FPGA_CARD", 4, 4)
	}
	return host
}

// TestSamplesMeetTheirExpectation places the samples one after another on the
// smallest fleet README.md allows.
func TestSamplesMeetTheirExpectation(t *testing.T) {
	tables := make([]*schedule.Table, fleetCells)
	for cell := range tables {
		e := schedule.NewTable().Edit()
		for rack := 1; rack <= fleetRacks; rack++ {
			for h := 1; h <= 25; h++ {
				e.PutHost(fleetHost(cell+1, rack, h))
			}
		}
		tables[cell] = e.Table()
	}
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		r, ok := compile(t, s, map[string]int{})
		if !ok {
			continue
		}
		res := planSample(t, tables, s, &r, uint64(i))
		got := Placed
		if res.Failed >= 0 {
			got = Refused
		}
		if got != s.Expect {
			t.Errorf("%s: %s (failed at %d), expected %s; %+v", s.Name, got, res.Failed, s.Expect, rejects(res))
			continue
		}
		if got == Placed && !s.Request.GetDryRun() {
			take(t, tables, res, s, &r)
		}
	}
}

func planSample(t *testing.T, tables []*schedule.Table, s Sample, r *schedule.Request, seed uint64) *merge.Result {
	t.Helper()
	rules := &schedule.Rules{DefaultAvailabilityZone: "nova"}
	if s.Request.GetRequestSpec().GetStrategy() == "pack" {
		rules.Weighers = schedule.PackWeighers()
	}
	plan := merge.NewPlan(merge.Config{
		Request: r, Rules: rules, Seed: seed, Instances: instances(t, s), Cells: len(tables), Alternates: 2, MaxRounds: 8,
	})
	for asks := plan.Next(); len(asks) > 0; asks = plan.Next() {
		for _, a := range asks {
			pr, err := tables[a.Cell].Propose(&a.Query)
			if err != nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
			if err := plan.Answer(a.Cell, pr); err != nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
		}
	}
	return plan.Result()
}

func instances(t *testing.T, s Sample) []schedule.ID {
	t.Helper()
	var ids []schedule.ID
	for _, u := range s.Request.GetInstanceUuids() {
		id, err := schedule.ParseID(u)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

func take(t *testing.T, tables []*schedule.Table, res *merge.Result, s Sample, r *schedule.Request) {
	t.Helper()
	ids := instances(t, s)
	for i, p := range res.Picks {
		e := tables[p.Cell].Edit()
		if !e.Take(schedule.TentativePlacement{Host: p.Candidate.Host, Instance: ids[i]}, r) {
			t.Errorf("%s: %s cannot be taken", s.Name, p.Candidate.ServiceHost)
		}
		tables[p.Cell] = e.Table()
	}
}

func rejects(res *merge.Result) []schedule.Reject {
	var all []schedule.Reject
	for _, p := range res.First {
		if p != nil {
			all = append(all, p.Rejects...)
		}
	}
	return all
}
