package schedule

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

// A query ends soon after its Stop returns true, on a table and in a FilterCache. The FilterCache
// then answers the next query like the table.
func TestQueriesStop(t *testing.T) {
	e := NewTable().Edit()
	for i := range 3 * stopEvery * chunkSize {
		e.PutHost(Host{
			UUID:      ID{1, byte(i), byte(i >> 8), byte(i >> 16)},
			Resources: []Resource{{Class: "VCPU", Capacity: 64, MinUnit: 1, MaxUnit: 64, StepSize: 1}},
			View:      View{FreeRAMMB: int64(i)},
		})
	}
	table := e.Table()
	r := &Request{Resources: []Amount{{Class: "VCPU", N: 1}}}
	rules := &Rules{Filters: []string{}, Weighers: []Weigher{{Name: RAMWeigher, Multiplier: 1}}}
	cache := NewFilterCache(r, rules)
	asked := 0
	q := &Query{Request: r, Rules: rules, Limit: 3, Stop: func() bool { asked++; return asked == 2 }}
	for name, propose := range map[string]func() (*Proposal, error){
		"table": func() (*Proposal, error) { return table.Propose(q) },
		"cache": func() (*Proposal, error) { return cache.Propose(table, q) },
	} {
		asked = 0
		if p, err := propose(); !errors.Is(err, ErrStopped) || asked != 2 {
			t.Errorf("%s: %+v, %v after %d looks", name, p, err, asked)
		}
	}
	free := *q
	free.Stop = nil
	want, err := table.Propose(&free)
	got, failed := cache.Propose(table, &free)
	if err != nil || failed != nil || got.Passed == 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("after a stop %+v %v, want %+v %v", got, failed, want, err)
	}
}

// One host with many NUMA cells may take milliseconds, so a query stops within a chunk.
func TestQuery_StoppedDuringNUMASearch_EndsWithinChunk(t *testing.T) {
	var cells []any
	for id := range 8 {
		cells = append(cells, novaObject(map[string]any{
			"id": id, "cpuset": []int{id}, "pcpuset": []int{}, "pinned_cpus": []int{}, "siblings": [][]int{}, "mempages": []any{},
			"memory": 1024, "memory_usage": 0, "cpu_usage": 0, "socket": 0,
		}))
	}
	topology, err := json.Marshal(novaObject(map[string]any{"cells": cells}))
	if err != nil {
		t.Fatal(err)
	}
	e := NewTable().Edit()
	for i := range chunkSize {
		// Each host is different, so that none has the result of another.
		h := Host{UUID: fleetHost(i), Facts: ParseFacts(FactTexts{NUMATopology: string(topology)})}
		h.View.CPURatio, h.View.RAMRatio = 1, float64(1+i)
		e.PutHost(h)
	}
	table := e.Table()
	// Any seven cells fit, in any order, but no device does.
	guest := &InstanceNUMA{}
	for id := range 7 {
		guest.Cells = append(guest.Cells, InstanceCell{ID: int64(id), CPUs: 1, MemoryMB: 1})
	}
	asked := 0
	q := &Query{
		Request: &Request{Nova: &NovaRequest{NUMA: guest, PCI: []PCIRequest{{Count: 1}}}},
		Rules:   &Rules{Filters: []string{NUMAFilter}}, Limit: 1, Stop: func() bool { asked++; return asked > 3 },
	}
	cache := NewFilterCache(q.Request, q.Rules)
	for name, propose := range map[string]func() (*Proposal, error){
		"table":       func() (*Proposal, error) { return table.Propose(q) },
		"cache":       func() (*Proposal, error) { return cache.Propose(table, q) },
		"near misses": func() (*Proposal, error) { near := *q; near.NearMisses = 1; return table.Propose(&near) },
	} {
		asked = 0
		if p, err := propose(); !errors.Is(err, ErrStopped) || asked > 2*chunkSize {
			t.Errorf("%s: %+v, %v after %d looks", name, p, err, asked)
		}
	}
}
