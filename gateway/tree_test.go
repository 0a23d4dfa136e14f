package gateway

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// gpuHost has two child providers of one VGPU each, of which one is fast.
func gpuHost(n int) schedule.Host {
	h := testHost(n, 1)
	for i, traits := range [][]string{{"CUSTOM_SLOW"}, {"CUSTOM_FAST"}} {
		h.Children = append(h.Children, schedule.Provider{
			UUID: testID(0xf, 10*n+i), Parent: h.UUID, Traits: traits,
			Resources: []schedule.Resource{{Class: "VGPU", Capacity: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1}},
		})
	}
	return h
}

// Groups are claimed on the child providers that have their resources, and the answer names these providers. Once they
// are taken, no host is valid, in whichever cell.
func TestGroupsAreClaimedOfChildProviders(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 4)), newCell(2, gpuHost(2))}, nil)
	asked := func(first, n int, specs map[string]string) *cellgatev1.SelectDestinationsRequest {
		req := ask(first, n)
		req.GetRequestSpec().Flavor.ExtraSpecs = specs
		return req
	}
	fast := map[string]string{"resources1:VGPU": "1", "trait1:CUSTOM_FAST": "required"}
	s := w.choose(asked(1, 1, fast)).GetDestinations()[0].GetSelected()
	root, child := testUUID(0xa, 2), testUUID(0xf, 21)
	want := `{"allocations":{"` + root + `":{"resources":{"DISK_GB":10,"MEMORY_MB":4096,"VCPU":2}},"` + child + `":{"resources":{"VGPU":1}}},` +
		`"mappings":{"":["` + root + `"],"1":["` + child + `"]}}`
	if s.GetAllocationRequest() != want {
		t.Errorf("allocation_request %s\nwant %s", s.GetAllocationRequest(), want)
	}
	claim := w.cells[1].live()[0]
	if len(claim.GetAllocations()) != 4 || claim.GetAllocations()[3].GetProviderUuid() != child || claim.GetAllocations()[3].GetResourceClass() != "VGPU" {
		t.Errorf("claimed %v", claim.GetAllocations())
	}
	if _, err := w.scheduler.SelectDestinations(t.Context(), asked(2, 1, fast)); err == nil || !strings.Contains(err.Error(), "TreeFilter") {
		t.Errorf("the fast one is taken: %v", err)
	}
	// One provider is left: a class without a suffix is found on any provider.
	s = w.choose(asked(3, 1, map[string]string{"resources:VGPU": "1"})).GetDestinations()[0].GetSelected()
	if !strings.Contains(s.GetAllocationRequest(), testUUID(0xf, 20)+`":{"resources":{"VGPU":1}}`) {
		t.Errorf("allocation_request %s", s.GetAllocationRequest())
	}
}

// A host whose tree lacks a class is not reported to lack the tree besides.
func TestNearestHost_TreeLacksAClass_IsNamedOnce(t *testing.T) {
	w := start(t, []*testCell{newCell(1, gpuHost(1))}, nil)
	for specs, want := range map[[2]string]string{{"resources1:VGPU", "5"}: "VGPU", {"trait1:CUSTOM_FAST", "required"}: ""} {
		req := ask(1, 1)
		req.GetRequestSpec().Flavor.ExtraSpecs = map[string]string{"resources1:VGPU": "1", "resources2:VGPU": "1", "trait2:CUSTOM_FAST": "required", "group_policy": "isolate", specs[0]: specs[1]}
		got, err := w.scheduler.ExplainDestinations(t.Context(), req)
		if err != nil || len(got.GetNearest()) != 1 {
			t.Fatalf("%v: %v, %v", specs, got, err)
		}
		var trees []string
		for _, m := range got.GetNearest()[0].GetMisses() {
			if m.GetFilter() == schedule.TreeFilter {
				trees = append(trees, m.GetDetail())
			}
		}
		if !slices.Equal(trees, []string{want}) || strings.Contains(got.GetSmallestOperatorChange(), ", TreeFilter") {
			t.Errorf("%v: lacks %q, want %q; %s", specs, trees, want, got.GetSmallestOperatorChange())
		}
	}
}

// Two instances of a request get two providers; a third finds none.
func TestInstancesShareATree(t *testing.T) {
	w := start(t, []*testCell{newCell(1, gpuHost(1))}, nil)
	req := ask(1, 2)
	req.GetRequestSpec().Flavor.ExtraSpecs = map[string]string{"resources_gpu:VGPU": "1"}
	resp := w.choose(req)
	taken := map[string]bool{}
	for _, d := range resp.GetDestinations() {
		allocations, err := allocationsIn(d.GetSelected().GetAllocationRequest())
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range allocations {
			if a.GetResourceClass() == "VGPU" {
				taken[a.GetProviderUuid()] = true
			}
		}
	}
	if len(taken) != 2 {
		t.Errorf("taken %v", taken)
	}
	req = ask(5, 3)
	req.GetRequestSpec().Flavor.ExtraSpecs = map[string]string{"resources_gpu:VGPU": "1"}
	if _, err := w.scheduler.SelectDestinations(t.Context(), req); err == nil {
		t.Error("three instances were placed on two providers")
	}
}

// If an alternate's allocation takes nothing of the root provider, a child provider in it identifies the
// alternate: the conductor knows no other.
func TestAlternateByItsProvider(t *testing.T) {
	w := start(t, []*testCell{newCell(1, gpuHost(1), gpuHost(2), gpuHost(3))}, nil)
	req := ask(1, 1)
	req.ReturnAlternates = true
	req.GetRequestSpec().Flavor.ExtraSpecs = map[string]string{
		"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0", "resources1:VGPU": "1",
	}
	d := w.choose(req).GetDestinations()[0]
	next := d.GetAlternates()[0]
	takes, err := allocationsIn(next.GetAllocationRequest())
	if err != nil || len(takes) != 1 || takes[0].GetProviderUuid() == next.GetComputeNodeUuid() {
		t.Fatalf("the alternate takes %v: %v", takes, err)
	}
	for range 2 {
		c, err := w.alternate(d.GetSelected().GetClaimId(), takes[0].GetProviderUuid())
		if err != nil {
			t.Fatal(err)
		}
		if c.GetHostUuid() != next.GetComputeNodeUuid() || len(c.GetAllocations()) != 1 || c.GetAllocations()[0].GetProviderUuid() != takes[0].GetProviderUuid() {
			t.Errorf("the claim is %v", c)
		}
	}
	if _, err := w.alternate(d.GetSelected().GetClaimId(), testUUID(0xf, 99)); err == nil || !strings.Contains(err.Error(), "is none of the alternates") {
		t.Errorf("a provider of nobody's: %v", err)
	}
}

// allocationsIn parses an allocation_request, and sorts its amounts by provider and class.
func allocationsIn(text string) ([]*cellgatev1.Allocation, error) {
	var form struct {
		Allocations map[string]struct {
			Resources map[string]int32 `json:"resources"`
		} `json:"allocations"`
	}
	err := json.Unmarshal([]byte(text), &form)
	var out []*cellgatev1.Allocation
	for provider, a := range form.Allocations {
		for class, n := range a.Resources {
			out = append(out, &cellgatev1.Allocation{ProviderUuid: provider, ResourceClass: class, Amount: n})
		}
	}
	slices.SortFunc(out, func(a, b *cellgatev1.Allocation) int {
		return cmp.Or(cmp.Compare(a.GetProviderUuid(), b.GetProviderUuid()), cmp.Compare(a.GetResourceClass(), b.GetResourceClass()))
	})
	return out, err
}
