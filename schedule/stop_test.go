package schedule

import (
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
