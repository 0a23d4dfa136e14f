package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"cellgate/schedule/hardware"
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

// eightCells is a topology of eight cells with a CPU each.
func eightCells(t *testing.T) []byte {
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
	return topology
}

// One host with many NUMA cells may take milliseconds, so a query stops within a chunk.
func TestQuery_StoppedDuringNUMASearch_EndsWithinChunk(t *testing.T) {
	topology := eightCells(t)
	e := NewTable().Edit()
	for i := range chunkSize {
		h := Host{UUID: fleetHost(i), Facts: ParseFacts(FactTexts{NUMATopology: string(topology)})}
		h.View.CPURatio, h.View.RAMRatio = 1, 1
		e.PutHost(h)
	}
	table := e.Table()
	// Any seven cells fit, in any order, but no device does.
	guest := &hardware.InstanceNUMA{}
	for id := range 7 {
		guest.Cells = append(guest.Cells, hardware.InstanceCell{ID: int64(id), CPUs: 1, MemoryMB: 1})
	}
	asked := 0
	q := &Query{
		Request: &Request{Nova: &NovaRequest{Guest: hardware.Guest{NUMA: guest, PCI: []hardware.PCIRequest{{Count: 1}}}}},
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

// Thirteen groups do not fit on the twelve children of a host, in any order.
func hostWithTooFewChildren() (*Table, *Request) {
	h, r := Host{UUID: fleetHost(0)}, &Request{Tree: &Tree{}}
	for i := range 12 {
		h.Children = append(h.Children, Provider{
			UUID: testID('p', i), Parent: h.UUID, Resources: []Resource{{Class: "BANDWIDTH", Capacity: 100, MinUnit: 1, MaxUnit: 100, StepSize: 1}},
		})
	}
	for i := range 13 {
		r.Tree.Groups = append(r.Tree.Groups, ResourceGroup{Suffix: fmt.Sprint(i), Resources: []Amount{{"BANDWIDTH", 60 + int64(i%2)}}})
	}
	e := NewTable().Edit()
	e.PutHost(h)
	return e.Table(), r
}

func TestQuery_StoppedDuringTreeSearch_Ends(t *testing.T) {
	table, r := hostWithTooFewChildren()
	asked := 0
	q := &Query{Request: r, Rules: &Rules{Filters: []string{TreeFilter}}, Limit: 1, Stop: func() bool { asked++; return asked > 1 }}
	if p, err := table.Propose(q); !errors.Is(err, ErrStopped) {
		t.Errorf("%+v, %v", p, err)
	}
}

// counting is an expression that counts its calls, and passes no host.
type counting struct {
	testExpression
	calls *int
}

func (x counting) Ask(*Request, HostFacts) (why, cost int) {
	*x.calls++
	return 0, 1
}

// Near misses of a guest with a topology may be tried on every host.
func TestQuery_StoppedDuringNearMisses_TriesNoFurtherHost(t *testing.T) {
	e := NewTable().Edit()
	for i := range 2 * chunkSize {
		e.PutHost(Host{UUID: fleetHost(i), Facts: ParseFacts(FactTexts{NUMATopology: string(eightCells(t))})})
	}
	table, calls, atStop := e.Table(), 0, 0
	q := &Query{
		Request: &Request{Expression: counting{calls: &calls}, Nova: &NovaRequest{Guest: hardware.Guest{NUMA: &hardware.InstanceNUMA{Cells: []hardware.InstanceCell{{CPUs: 2, MemoryMB: 1}}}}}},
		Rules:   &Rules{Filters: []string{NUMAFilter, ExpressionFilter}}, Limit: 1, NearMisses: 1,
	}
	q.Stop = func() bool {
		if calls > table.Len() && atStop == 0 {
			atStop = calls
		}
		return atStop > 0
	}
	if _, err := table.Propose(q); !errors.Is(err, ErrStopped) || calls > atStop+1 {
		t.Errorf("%v; %d hosts asked, %d of them before the stop", err, calls, atStop)
	}
}
