package schedule

import (
	"fmt"
	"testing"
)

// Each operator's reason has its own count; beyond maxReasons, only the reasons with most hosts do.
// Edits of a table keep the counts.
func TestReasonsOfOperatorsAreCounted(t *testing.T) {
	table := NewTable()
	put := func(n int, why string) {
		e := table.Edit()
		e.PutHost(Host{UUID: fleetHost(n), ServiceHost: fmt.Sprint(n), Withheld: why})
		table = e.Table()
	}
	rejected := func() map[string]int {
		got := map[string]int{}
		for _, r := range propose(t, table, &Query{Request: &Request{}, Rules: &Rules{}, Limit: 1}).Rejects {
			if r.Filter != ComputeFilter {
				t.Fatalf("rejected by %+v", r)
			}
			got[r.Detail] += r.Hosts
		}
		return got
	}
	for n := range 100 {
		put(n, "in maintenance: a kernel")
	}
	put(100, "")
	old := table
	for n := range 100 {
		// Reason i has i+1 hosts; the last reason, 13, has the remaining 9.
		i := 0
		for (i+1)*(i+2)/2 <= n {
			i++
		}
		put(n, fmt.Sprintf("disabled by operator: %02d", i))
	}
	if got := rejected(); len(got) != 14 || got["disabled by operator: 07"] != 8 {
		t.Errorf("of fourteen reasons there are %v", got)
	}
	for n := range 10 {
		put(n, fmt.Sprintf("forced down by operator: %d", n))
	}
	// Ten new reasons have one host each, and ten of the fourteen are left: four reasons too many.
	got := rejected()
	if len(got) != maxReasons+1 || got[otherReasons] != 4 || got["disabled by operator: 07"] != 8 {
		t.Errorf("of many reasons there are %v", got)
	}
	e := table.Edit()
	for n := range 100 {
		if n%2 == 0 {
			e.RemoveHost(fleetHost(n))
		} else {
			e.PutHost(Host{UUID: fleetHost(n), ServiceHost: fmt.Sprint(n)})
		}
	}
	table = e.Table()
	if got := rejected(); len(got) != 0 || table.withheld != nil {
		t.Errorf("of none there are %v, kept is %+v", got, table.withheld)
	}
	table = old
	if got := rejected(); len(got) != 1 || got["in maintenance: a kernel"] != 100 || table.withheld.list[0].hosts != 100 {
		t.Errorf("the older table has %v, counted are %+v", got, table.withheld)
	}
}
