package gateway

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"cellgate/gateway/rules"
	"cellgate/gateway/selection"
	"cellgate/internal/fault"
	"cellgate/internal/testlong"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// single places the instances as one scheduler over all hosts does: pick the
// best, take, pick again.
func single(hosts []schedule.Host, r *schedule.Request, rules *schedule.Rules, seed uint64, instances []schedule.ID) []schedule.Candidate {
	e := schedule.NewTable().Edit()
	for _, h := range hosts {
		e.PutHost(h)
	}
	t := e.Table()
	var picks []schedule.Candidate
	for _, id := range instances {
		p, err := t.Propose(&schedule.Query{Request: r, Rules: rules, Seed: seed, Limit: 1})
		if err != nil {
			panic(err)
		}
		if len(p.Candidates) == 0 {
			return picks
		}
		picks = append(picks, p.Candidates[0])
		e := t.Edit()
		e.Take(schedule.TentativePlacement{Host: p.Candidates[0].Host, Instance: id}, r)
		t = e.Table()
	}
	return picks
}

// However the hosts are split into cells, the merged answer over real gRPC is a single scheduler's, for
// several instances and for groups.
func TestI5_MergedOrderIsASingleSchedulers(t *testing.T) {
	const cells = 4
	var drawn []*drawnCell
	var all []*testCell
	for i := range cells {
		c := newCell(i + 1)
		// Without a summary no cell is left out. Each draw has other hosts, and a summary may
		// still be of the previous ones.
		c.before = func(_ context.Context, method string, _ any) error {
			if method == "GetSummary" {
				return fault.New(fault.Overloaded, "no summary")
			}
			return nil
		}
		drawn, all = append(drawn, &drawnCell{testCell: c, hosts: map[string]schedule.Host{}}), append(all, c)
	}
	mergesAsASingleScheduler(t, start(t, all, patient), drawn)
}

// setChecks sets how many cases rapid tries in this test: short, or long in make test-long.
func setChecks(t *testing.T, short, long int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if testlong.On() {
		short = long
	}
	if err := checks.Value.Set(strconv.Itoa(short)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := checks.Value.Set(before); err != nil {
			t.Error(err)
		}
	})
}

// drawnCell is a cell whose hosts are drawn anew for each case. A host that is not drawn again is disabled.
type drawnCell struct {
	*testCell
	hosts map[string]schedule.Host
}

func (c *drawnCell) report(drawn []schedule.Host) {
	gone := maps.Clone(c.hosts)
	for _, h := range drawn {
		delete(gone, h.UUID.String())
		c.hosts[h.UUID.String()] = h
		c.testCell.report(h)
	}
	for uuid, h := range gone {
		h.Disabled = true
		c.testCell.report(h)
		delete(c.hosts, uuid)
	}
}

// mergesAsASingleScheduler draws hosts into the world's cells, and compares the merged
// answer with a single scheduler's.
func mergesAsASingleScheduler(t *testing.T, w *world, drawn []*drawnCell) {
	t.Helper()
	setChecks(t, 40, 100)
	cells := len(drawn)
	run, several := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		n := rapid.IntRange(1, 24).Draw(t, "hosts")
		var all []schedule.Host
		split := make([][]schedule.Host, cells)
		for i := range n {
			c := rapid.IntRange(0, cells-1).Draw(t, "cell")
			h := testHost(100*c+i, rapid.IntRange(1, 4).Draw(t, "size"))
			h.View.NumIOOps = int64(rapid.IntRange(0, 3).Draw(t, "io"))
			h.View.FailedBuilds = int64(rapid.IntRange(0, 1).Draw(t, "failed"))
			used := int64(rapid.IntRange(0, 12).Draw(t, "used"))
			h.Resources[0].Used, h.View.VCPUsUsed = used, used
			h.Resources[1].Used, h.View.FreeRAMMB = used*4096, h.View.FreeRAMMB-used*4096
			h.Cell = drawn[c].uuid
			all, split[c] = append(all, h), append(split[c], h)
		}
		for i, c := range drawn {
			c.report(split[i])
		}
		req := ask(0, rapid.IntRange(1, 6).Draw(t, "instances"))
		req.RequestId, req.DryRun = fmt.Sprint(rapid.Uint32().Draw(t, "id")), true
		spec := req.GetRequestSpec()
		spec.Strategy = rapid.SampledFrom([]string{"", "spread", "pack", "balanced", "nova"}).Draw(t, "strategy")
		if policy := rapid.SampledFrom([]string{"", "", "affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"}).Draw(t, "policy"); policy != "" {
			spec.InstanceGroup = &cellgatev1.InstanceGroup{Uuid: testUUID(0xe, 1), Policy: policy}
		}
		by, err := rules.Compile(rules.Config{})
		if err != nil {
			t.Fatal(err)
		}
		request, _, err := by.Translation.Compile(selection.SpecOf(spec))
		if err != nil {
			t.Fatal(err)
		}
		id := fnv.New64a() // the seed of a request with an id
		id.Write([]byte(req.GetRequestId()))
		var instances []schedule.ID
		for _, text := range req.GetInstanceUuids() {
			instances = append(instances, mustID(text))
		}
		want := single(all, &request, by.For(spec.GetStrategy()), id.Sum64(), instances)
		resp, err := w.scheduler.SelectDestinations(context.Background(), req)
		if len(want) < len(instances) {
			if err == nil {
				t.Fatalf("a single scheduler places %d of %d, got %v", len(want), len(instances), resp)
			}
			return
		}
		if err != nil {
			t.Fatalf("a single scheduler places all %d: %v", len(want), err)
		}
		if len(want) > 1 {
			several++
		}
		if !resp.GetExact() || resp.GetPartial() {
			t.Fatalf("exact %v, partial %v", resp.GetExact(), resp.GetPartial())
		}
		var got []string
		for _, d := range resp.GetDestinations() {
			got = append(got, fmt.Sprintf("%s %v", d.GetSelected().GetServiceHost(), d.GetSelected().GetWeight()))
		}
		var single []string
		for _, c := range want {
			single = append(single, fmt.Sprintf("%s %v", c.ServiceHost, c.Weight))
		}
		if !slices.Equal(got, single) {
			t.Fatalf("got  %v\nwant %v", got, single)
		}
	})
	if several == 0 {
		t.Errorf("%d runs, none placed several instances", run)
	}
}

// Cells predict how the picks of several instances change their answers, so that one round of
// queries is enough for all instances.
func TestSeveralInstances_OneRoundOfQueries(t *testing.T) {
	w := start(t, []*testCell{
		newCell(1, testHost(1, 10), testHost(2, 7)), newCell(2, testHost(3, 9), testHost(4, 6)), newCell(3, testHost(5, 8), testHost(6, 5)),
	}, nil)
	asked := func() (n int) {
		for _, c := range w.cells {
			n += len(c.queries())
		}
		return n
	}
	req := whole(1, 6)
	req.DryRun = true
	w.choose(req) // learns the bounds
	before := asked()
	w.choose(req)
	if n := asked() - before; n > len(w.cells)+1 {
		t.Errorf("%d queries for 6 instances in %d cells", n, len(w.cells))
	}
}
