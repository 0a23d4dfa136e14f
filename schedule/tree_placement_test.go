package schedule

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"cellgate/internal/norace"
	"cellgate/internal/testlong"
)

// treeCase is a tree of providers, a request, and the allocation candidates that Placement answers.
type treeCase struct {
	Tree    []treeCaseProvider `json:"tree"`
	Request treeCaseRequest    `json:"request"`
	// Candidates are Placement's answer. If Placement refuses the query, there are none, and Error
	// has the reason.
	Candidates []string `json:"candidates"`
	Error      string   `json:"error,omitempty"`
}

type treeCaseProvider struct {
	// Parent is the number of an earlier provider; the first provider is the root.
	Parent      int                          `json:"parent"`
	Traits      []string                     `json:"traits"`
	Aggregates  []string                     `json:"aggregates,omitempty"`
	Inventories map[string]treeCaseInventory `json:"inventories"`
	Used        map[string]int64             `json:"used,omitempty"`
}

type treeCaseInventory struct {
	Total    int64   `json:"total"`
	Reserved int64   `json:"reserved"`
	Ratio    float64 `json:"allocation_ratio"`
	MinUnit  int64   `json:"min_unit"`
	MaxUnit  int64   `json:"max_unit"`
	StepSize int64   `json:"step_size"`
}

type treeCaseRequest struct {
	treeCaseGroup
	RootRequired  []string        `json:"root_required"`
	RootForbidden []string        `json:"root_forbidden"`
	Groups        []treeCaseGroup `json:"groups"`
	Policy        string          `json:"policy"`
	SameSubtree   [][]string      `json:"same_subtree"`
}

type treeCaseGroup struct {
	Suffix    string           `json:"suffix,omitempty"`
	Resources map[string]int64 `json:"resources"`
	Required  []string         `json:"required"`
	Forbidden []string         `json:"forbidden"`
	MemberOf  [][]string       `json:"member_of,omitempty"`
	NotIn     []string         `json:"not_in,omitempty"`
	// InTree is the number of a provider. A number that no provider has means one of another tree.
	InTree *int `json:"in_tree,omitempty"`
}

const bundledTrees = "testdata/placement-candidates.jsonl.gz"

var updateTrees = flag.Bool("update-trees", false, "ask Placement anew for "+bundledTrees)

func treeProviderID(n int) ID { return testID('p', n) }

// host is the case's tree as a Host.
func (c *treeCase) host() Host {
	h := Host{UUID: treeProviderID(0), ServiceHost: "h", NodeName: "n"}
	for i, p := range c.Tree {
		var list []Resource
		for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
			x := p.Inventories[class]
			list = append(list, Resource{
				Class: class, Capacity: int64(float64(x.Total-x.Reserved) * x.Ratio), Used: p.Used[class],
				MinUnit: x.MinUnit, MaxUnit: x.MaxUnit, StepSize: x.StepSize,
			})
		}
		if i == 0 {
			h.Traits, h.Resources = p.Traits, list
			for _, a := range p.Aggregates {
				h.Aggregates = append(h.Aggregates, Aggregate{UUID: a})
			}
			continue
		}
		h.Children = append(h.Children, Provider{UUID: treeProviderID(i), Parent: treeProviderID(p.Parent), Traits: p.Traits, Resources: list})
	}
	return h
}

func caseAmounts(of map[string]int64) []Amount {
	var out []Amount
	for _, class := range slices.Sorted(maps.Keys(of)) {
		out = append(out, Amount{class, of[class]})
	}
	return out
}

// asked is the case's request as a Request.
func (c *treeCase) asked() *Request {
	r := &c.Request
	join := func(a, b []string) []string {
		all := append(slices.Clone(a), b...)
		slices.Sort(all)
		return slices.Compact(all)
	}
	out := &Request{
		Resources: caseAmounts(r.Resources), Required: join(r.RootRequired, r.Required), Forbidden: join(r.RootForbidden, r.Forbidden),
		Tree: &Tree{
			Required: r.Required, Forbidden: r.Forbidden,
			Both:    append(differing(r.Required, differing(r.Required, r.RootRequired)), differing(r.Forbidden, differing(r.Forbidden, r.RootForbidden))...),
			Isolate: r.Policy == "isolate", SameSubtree: r.SameSubtree,
		},
	}
	for _, g := range r.Groups {
		group := ResourceGroup{
			Suffix: g.Suffix, Resources: caseAmounts(g.Resources), Required: g.Required, Forbidden: g.Forbidden,
			MemberOf: g.MemberOf, ForbiddenAggregates: g.NotIn,
		}
		if g.InTree != nil {
			group.InTree = treeProviderID(*g.InTree)
		}
		out.Tree.Groups = append(out.Tree.Groups, group)
	}
	return out
}

// candidate formats an allocation as placement_candidates.py does.
func candidate(a *Allocation) string {
	number := func(id ID) int {
		for i := range 100 {
			if treeProviderID(i) == id {
				return i
			}
		}
		return -1
	}
	var taken, mapped []string
	for _, x := range a.Amounts {
		taken = append(taken, fmt.Sprintf("%d %s=%d", number(x.Provider), x.Class, x.N))
	}
	for _, m := range a.Mappings {
		var of []int
		for _, p := range m.Providers {
			of = append(of, number(p))
		}
		slices.Sort(of)
		mapped = append(mapped, m.Suffix+":"+strings.Trim(strings.ReplaceAll(fmt.Sprint(of), " ", ","), "[]"))
	}
	slices.Sort(taken)
	slices.Sort(mapped)
	return strings.Join(taken, "; ") + " | " + strings.Join(mapped, " ")
}

// garbled reports whether Placement 8.0.0 computes wrong candidates for the case. Unless
// group_policy is none, it adds up the amounts that two groups take of one inventory, in objects
// that other candidates share (research_context.py, copy_arr_if_needed). Later candidates then ask
// for more than the request does, or are missing.
func (c *treeCase) garbled() bool {
	r := &c.Request
	return r.Policy != "none" && slices.ContainsFunc(r.Groups, func(g treeCaseGroup) bool {
		for class := range g.Resources {
			if _, ok := r.Resources[class]; ok {
				return true
			}
		}
		return false
	})
}

// propose queries a table with only the case's tree.
func (c *treeCase) propose() (*Proposal, error) {
	e := NewTable().Edit()
	e.PutHost(c.host())
	return e.Table().Propose(&Query{
		Request: c.asked(), Limit: 1,
		Rules: &Rules{Filters: []string{TraitFilter, ResourceFilter}, Weighers: []Weigher{}},
	})
}

// compare checks that a table proposes the host if Placement has a candidate, and that the
// allocation is one of Placement's candidates.
func (c *treeCase) compare(t *testing.T) (passed bool) {
	t.Helper()
	h, r := c.host(), c.asked()
	p, err := c.propose()
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Candidates) == 0 {
		if len(c.Candidates) > 0 {
			t.Errorf("%s\n rejected: %+v\n Placement: %q", dumpTree(c), p.Rejects, c.Candidates)
		}
		return false
	}
	a := p.Candidates[0].Allocation
	if a == nil {
		a = AtRoot(h.UUID, r.Resources)
	}
	if got := candidate(a); !slices.Contains(c.Candidates, got) {
		t.Errorf("%s\n ours %s\n Placement: %q", dumpTree(c), got, c.Candidates)
	}
	return true
}

func dumpTree(c *treeCase) string {
	text, err := json.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// TestTreesAreJudgedAsPlacementDoes compares with Placement 8.0.0's answers to the bundled cases.
// TestTreesAgainstPlacement compares with its answers to new cases.
func TestTreesAreJudgedAsPlacementDoes(t *testing.T) {
	norace.Skip(t, norace.Pure)
	if *updateTrees {
		bundleTrees(t)
	}
	file, err := os.Open(bundledTrees)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines, cases, passed, grouped, placed := bufio.NewScanner(z), 0, 0, 0, 0
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var c treeCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.garbled() {
			continue
		}
		if c.compare(t) {
			passed++
			if len(c.Request.Groups) > 0 {
				grouped++
			}
			if slices.ContainsFunc(c.Request.Groups, func(g treeCaseGroup) bool { return g.MemberOf != nil || g.NotIn != nil || g.InTree != nil }) {
				placed++
			}
		}
		cases++
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d cases, %d have candidates, %d of them groups, %d of these aggregates or in_tree", cases, passed, grouped, placed)
	if cases < 300 || passed < 200 || passed > cases*3/4 || grouped < 150 {
		t.Error("too few of some kind")
	}
}

func TestTreesAgainstPlacement(t *testing.T) {
	testlong.Only(t, "TestTreesAreJudgedAsPlacementDoes")
	norace.Skip(t, norace.Pure)
	seed := uint64(time.Now().UnixNano())
	cases := treeCases(seed, 40)
	askPlacement(t, cases)
	for i := range cases {
		if cases[i].Error == "" && !cases[i].garbled() {
			cases[i].compare(t)
		}
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

// askPlacement fills in Placement's answers. It skips the test if Placement is not installed.
func askPlacement(t *testing.T, cases []treeCase) {
	t.Helper()
	const python = "/usr/bin/python3"
	if out, err := exec.CommandContext(t.Context(), python, "-W", "ignore", "-c", "import placement").CombinedOutput(); err != nil {
		t.Skipf("Placement cannot be asked (apt install python3-placement): %v: %.200s", err, out)
	}
	var in bytes.Buffer
	for i := range cases {
		cases[i].Candidates, cases[i].Error = nil, ""
		in.WriteString(dumpTree(&cases[i]) + "\n")
	}
	cmd := exec.CommandContext(t.Context(), python, "-W", "ignore", "testdata/placement_candidates.py")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = &in, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != len(cases) {
		t.Fatalf("%d answers to %d cases: %s", len(lines), len(cases), stderr.String())
	}
	for i, line := range lines {
		if err := json.Unmarshal(line, &cases[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// bundleTrees asks Placement about many cases, and keeps a fixed number of each kind.
func bundleTrees(t *testing.T) {
	t.Helper()
	cases := append(treeCases(1, 1100), hopefulTrees(t, 2, 400)...)
	askPlacement(t, cases)
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]int{"groups": 420, "no groups": 120, "none with groups": 130, "none": 60}
	refused := 0
	for i := range cases {
		c := &cases[i]
		kind := "groups"
		switch {
		case c.Error != "":
			refused++
			continue
		case c.garbled() || len(c.Candidates) > 24:
			continue
		case len(c.Candidates) == 0 && len(c.Request.Groups) > 0:
			kind = "none with groups"
		case len(c.Candidates) == 0:
			kind = "none"
		case len(c.Request.Groups) == 0:
			kind = "no groups"
		}
		if wanted[kind]--; wanted[kind] < 0 {
			continue
		}
		if _, err := z.Write([]byte(dumpTree(c) + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d cases refused by Placement; still wanted (below 0: more than that were there): %v", refused, len(cases), wanted)
	if err := os.WriteFile(bundledTrees, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

var (
	treeClasses = []string{"VCPU", "MEMORY_MB", "VGPU", "CUSTOM_A"}
	treeTraits  = []string{"CUSTOM_T1", "CUSTOM_T2", "CUSTOM_T3"}

	treeAggregates = []string{
		"a0000000-0000-4000-8000-000000000001", "a0000000-0000-4000-8000-000000000002", "a0000000-0000-4000-8000-000000000003",
	}
)

// treeCases makes trees of up to six providers. Most are so tight that groups compete for
// providers. Those that are loosened have a candidate more often than not.
func treeCases(seed uint64, n int) []treeCase {
	rng := rand.New(rand.NewPCG(seed, 7))
	cases := make([]treeCase, n)
	for i := range cases {
		for {
			// Placement makes every combination before it judges any, so the number of combinations
			// is bounded.
			cases[i] = treeCase{Tree: randomTree(rng), Request: randomTreeRequest(rng)}
			if rng.IntN(2) == 0 {
				cases[i].loosen(rng)
			}
			choices := len(cases[i].Request.Resources) + len(cases[i].Request.Groups)
			if math.Pow(float64(len(cases[i].Tree)), float64(choices)) <= 1300 {
				break
			}
		}
	}
	return cases
}

// hopefulTrees makes cases with groups for which the core has a candidate. Two thirds have several
// groups, or a group beside unsuffixed amounts.
func hopefulTrees(t *testing.T, seed uint64, n int) (cases []treeCase) {
	t.Helper()
	for ; len(cases) < n; seed += 2 {
		for _, c := range treeCases(seed, 100) {
			groups := len(c.Request.Groups)
			if groups == 0 || c.garbled() || len(cases)%3 > 0 && groups < 2 && len(c.Request.Resources) == 0 {
				continue
			}
			p, err := c.propose()
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Candidates) > 0 {
				cases = append(cases, c)
			}
		}
	}
	return cases[:n]
}

// loosen changes a case so that it more often has a candidate.
func (c *treeCase) loosen(rng *rand.Rand) {
	for i := range c.Tree {
		for class := range c.Tree[i].Inventories {
			if rng.IntN(3) > 0 {
				delete(c.Tree[i].Used, class)
			}
		}
	}
	r := &c.Request
	fewer := func(g *treeCaseGroup) {
		for class := range g.Resources {
			g.Resources[class] = 1 + rng.Int64N(2)
			if len(g.Resources) > 1 && rng.IntN(2) == 0 {
				delete(g.Resources, class)
			}
		}
		if len(g.Resources) > 0 && rng.IntN(3) > 0 {
			g.Required, g.MemberOf = nil, nil
		}
	}
	fewer(&r.treeCaseGroup)
	if rng.IntN(3) > 0 {
		r.RootRequired, r.RootForbidden = nil, nil
	}
	for i := range r.Groups {
		g := &r.Groups[i]
		fewer(g)
		for class := range g.Resources {
			if r.Policy != "none" { // see garbled
				delete(r.Resources, class)
			}
		}
	}
}

func randomTree(rng *rand.Rand) []treeCaseProvider {
	var tree []treeCaseProvider
	for i := range 1 + rng.IntN(6) {
		p := treeCaseProvider{Traits: some(rng, treeTraits, 0.4), Inventories: map[string]treeCaseInventory{}, Used: map[string]int64{}}
		if i > 0 {
			p.Parent = rng.IntN(i)
		} else if rng.IntN(2) == 0 {
			p.Aggregates = some(rng, treeAggregates, 0.5)
		}
		for _, class := range some(rng, treeClasses, 0.5) {
			x := treeCaseInventory{Total: 1 + rng.Int64N(6), Ratio: 1, MinUnit: 1, MaxUnit: 100, StepSize: 1}
			switch rng.IntN(8) {
			case 0:
				x.Ratio = oneOf(rng, []float64{1.5, 2, 0.75})
			case 1:
				x.MaxUnit = 1 + rng.Int64N(3)
			case 2:
				x.MinUnit = 1 + rng.Int64N(2)
			case 3:
				x.StepSize = 2
			case 4:
				x.Reserved = rng.Int64N(x.Total + 1)
			}
			p.Inventories[class] = x
			if rng.IntN(3) == 0 {
				p.Used[class] = 1 + rng.Int64N(4)
			}
		}
		tree = append(tree, p)
	}
	return tree
}

func randomTreeRequest(rng *rand.Rand) treeCaseRequest {
	group := func(suffix string, often float64) treeCaseGroup {
		g := treeCaseGroup{Suffix: suffix, Resources: map[string]int64{}}
		for _, class := range some(rng, treeClasses, often) {
			g.Resources[class] = 1 + rng.Int64N(3)
		}
		if len(g.Resources) == 0 {
			g.Resources[oneOf(rng, treeClasses)] = 1
		}
		if rng.IntN(3) == 0 {
			g.Required = some(rng, treeTraits, 0.4)
		}
		if rng.IntN(3) == 0 {
			g.Forbidden = slices.DeleteFunc(some(rng, treeTraits, 0.3), func(t string) bool { return slices.Contains(g.Required, t) })
		}
		return g
	}
	r := treeCaseRequest{treeCaseGroup: group("", 0.4)}
	if rng.IntN(5) == 0 {
		r.RootRequired = some(rng, treeTraits, 0.4)
	}
	if rng.IntN(5) == 0 {
		r.RootForbidden = slices.DeleteFunc(some(rng, treeTraits, 0.4), func(t string) bool { return slices.Contains(r.RootRequired, t) })
	}
	suffixes := []string{"1", "2", "_b", "c-d"}[:rng.IntN(5)]
	if len(suffixes) > 0 && rng.IntN(5) == 0 {
		r.treeCaseGroup = treeCaseGroup{}
	}
	twin := group("", 0.3)
	for _, s := range suffixes {
		g := group(s, 0.3)
		if rng.IntN(3) == 0 {
			g = twin
			g.Suffix = s
		}
		r.Groups = append(r.Groups, g)
	}
	if len(suffixes) > 1 || len(suffixes) > 0 && rng.IntN(2) == 0 {
		r.Policy = oneOf(rng, []string{"none", "none", "isolate"})
	}
	if len(suffixes) > 1 && rng.IntN(2) == 0 {
		r.SameSubtree = [][]string{suffixes[:2]}
		if len(suffixes) > 3 && rng.IntN(2) == 0 {
			r.SameSubtree = append(r.SameSubtree, suffixes[2:])
		}
		// A group without resources becomes the subtree's top.
		if rng.IntN(2) == 0 {
			r.Groups[0].Resources = nil
			if len(r.Groups[0].Required) == 0 && rng.IntN(8) > 0 {
				r.Groups[0].Required = []string{oneOf(rng, treeTraits)}
			}
			r.Groups[0].Forbidden = differing(r.Groups[0].Forbidden, r.Groups[0].Required)
		}
	}
	for i := range r.Groups {
		g := &r.Groups[i]
		switch rng.IntN(12) {
		case 0:
			g.MemberOf = [][]string{some(rng, treeAggregates, 0.5)}
			if len(g.MemberOf[0]) == 0 {
				g.MemberOf[0] = treeAggregates[:2]
			}
			if rng.IntN(2) == 0 {
				g.MemberOf = append(g.MemberOf, treeAggregates[:1+rng.IntN(2)])
			}
		case 1:
			g.NotIn = treeAggregates[:1+rng.IntN(3)]
		case 2:
			if len(g.Resources) > 0 {
				in := rng.IntN(4)
				g.InTree = &in
			}
		}
	}
	return r
}
