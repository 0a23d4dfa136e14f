package placement

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cellgate/internal/testlong"
)

// startPlacement starts OpenStack's own Placement, or skips the test where it is not installed.
func startPlacement(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("/usr/bin/python3", "-W", "ignore", "-c", "import placement.wsgi").CombinedOutput(); err != nil {
		t.Skipf("Placement is not installed (apt install python3-placement): %v: %.200s", err, out)
	}
	cmd := exec.Command("/usr/bin/python3", "-W", "ignore", "testdata/serve_placement.py", t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("Placement does not start: %v", err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(line)
}

// reply is the part of a side's answer that is compared.
type reply struct {
	Status int
	Header map[string]string
	Body   any
	// text is the body as it came.
	text string
}

func send(t testing.TB, base string, o operation, body string) reply {
	t.Helper()
	r, err := http.NewRequest(o.method, base+o.path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("OpenStack-API-Version", "placement "+o.version)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := reply{Status: resp.StatusCode, Header: map[string]string{}, text: string(text)}
	for _, name := range []string{"Content-Type", "Cache-Control", "Vary", "Openstack-Api-Version", "Allow"} {
		out.Header[name] = resp.Header.Get(name)
	}
	if resp.StatusCode >= 400 {
		delete(out.Header, "Vary") // Placement forgets it in some
	}
	out.Header["Location"] = strings.TrimPrefix(resp.Header.Get("Location"), base)
	if resp.Header.Get("Last-Modified") != "" {
		out.Header["Last-Modified"] = "a time"
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &out.Body); err != nil {
			t.Fatalf("%s %s: %s: %v", o.method, o.path, text, err)
		}
	}
	out.Body = comparable(out.Body, "")
	return out
}

// comparable sorts lists, which have no order in Placement, and cuts texts to what is compared.
func comparable(v any, name string) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = comparable(v[k], k)
		}
		delete(v, "request_id")
		return v
	case []any:
		if name == "traits" { // another release has other standard ones
			v = slices.DeleteFunc(v, func(t any) bool {
				return IsStandard(TraitName, fmt.Sprint(t)) && !slices.Contains(drawnTraits, fmt.Sprint(t))
			})
		}
		for i := range v {
			v[i] = comparable(v[i], "")
		}
		slices.SortFunc(v, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return v
	case string:
		if name == "detail" {
			return comparedDetail(v)
		}
	}
	return v
}

// loose matches the beginnings of error texts that go on in the order of a Python set, or with a library's text. Only
// these beginnings are compared.
var loose = regexp.MustCompile(`(Malformed JSON|Failed validating|Unable to allocate inventory|No such trait|Update conflict|Inventory for|Real suffixes|bad group|Conflicting required and forbidden).*`)

func comparedDetail(s string) string {
	return strings.TrimSpace(loose.ReplaceAllString(s, "$1"))
}

// mismatch says how the answers to a request differ; "" when they do not.
func mismatch(want, got reply) string {
	if want.Status == http.StatusInternalServerError && strings.HasPrefix(got.text, `{"allocation_requests"`) {
		return "" // it looks for the summary of a sharing provider that is no root where there is none
	}
	if want.Status == http.StatusInternalServerError {
		// Placement fails on input that it did not check, with a text that cannot be compared.
		if got.Status < 400 || got.Status >= 500 {
			return fmt.Sprintf("Placement fails with 500, we answer %d", got.Status)
		}
		return ""
	}
	if got.Status == http.StatusBadRequest && strings.Contains(got.text, "No such ") &&
		(strings.Contains(want.text, `"allocation_requests": []`) || want.text == `{"resource_providers": []}` || want.Status == got.Status && strings.Contains(want.text, "No such ")) {
		return "" // Placement looks up no more names once it is sure to find nothing, and names another one first
	}
	if want.Header["Last-Modified"] == "" {
		delete(got.Header, "Last-Modified") // Placement forgets it with an empty list
	}
	if want.Status != got.Status || !reflect.DeepEqual(want.Header, got.Header) || !reflect.DeepEqual(want.Body, got.Body) {
		return fmt.Sprintf("Placement: %d %v %s\n     here: %d %v %s", want.Status, want.Header, want.text, got.Status, got.Header, got.text)
	}
	return ""
}

// withCandidates is the key, among the statuses, that counts answers with allocation candidates.
const withCandidates = 1

// run sends a sequence to both sides. It returns a log, the first difference, and how many answers had each status.
func run(t testing.TB, real, ours string, b func() Backend, sequence []operation) (log []string, different string, counts map[int]int) {
	t.Helper()
	counts = map[int]int{}
	for _, base := range []string{real, ours} {
		resp, err := http.Post(base+"/reset", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	for _, o := range sequence {
		now := viewOf(t, b())
		body := o.text(now)
		unnamed := o.method == "POST" && o.path == "/resource_providers" && !strings.Contains(body, `"uuid"`) // each side draws one
		if unnamed || o.skip != nil && o.skip(now) {
			continue
		}
		log = append(log, fmt.Sprintf("%s %s (%s) %s", o.method, o.path, o.version, body))
		want, got := send(t, real, o, body), send(t, ours, o, body)
		counts[got.Status]++
		if strings.Contains(got.text, `{"allocation_requests":[{`) {
			counts[withCandidates]++
		}
		if different = mismatch(want, got); different != "" {
			return log, different, counts
		}
	}
	return log, "", counts
}

// shrink leaves out requests as long as the rest still fails.
func shrink(sequence []operation, fails func([]operation) bool) []operation {
	for size := len(sequence) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(sequence); {
			shorter := slices.Concat(sequence[:from], sequence[from+size:])
			if fails(shorter) {
				sequence = shorter
			} else {
				from += size
			}
		}
	}
	return sequence
}

// TestDifferential_RandomRequests_AnswersArePlacements compares the API over the memory backend.
func TestDifferential_RandomRequests_AnswersArePlacements(t *testing.T) {
	CompareWithPlacement(t, func() Backend { return newMemory() })
}

// CompareWithPlacement sends the same random requests to OpenStack's own Placement and to the API over a backend; fresh
// gives an empty one. Tests of other backends use it, in package placement_test.
func CompareWithPlacement(t *testing.T, fresh func() Backend) {
	t.Helper()
	testlong.Only(t, "TestAPI_RecordedRequests_AnswersArePlacements")
	real := startPlacement(t)
	sequences, length, seed := numberFrom("SEQUENCES", 20), numberFrom("REQUESTS", 150), numberFrom("SEED", 1)
	var b Backend
	ours := resettable(t, func() Backend { b = fresh(); return b }).URL
	now := func() Backend { return b }
	total := map[int]int{}
	for n := range sequences {
		d := drawer{rand.New(rand.NewPCG(uint64(seed), uint64(n)))}
		sequence := d.opening()
		for range length {
			sequence = append(sequence, d.draw())
		}
		log, different, counts := run(t, real, ours, now, sequence)
		for status, k := range counts {
			total[status] += k
		}
		if different == "" {
			continue
		}
		first := different
		sequence = shrink(sequence[:min(len(sequence), len(log)+len(sequence)-length)], func(s []operation) bool {
			_, bad, _ := run(t, real, ours, now, s)
			return bad != ""
		})
		log, different, _ = run(t, real, ours, now, sequence)
		if different == "" {
			different = "not again; the first time:\n" + first
		}
		t.Errorf("sequence %d (SEED=%d):\n  %s\n%s", n, seed, strings.Join(log, "\n  "), different)
	}
	found := total[withCandidates]
	delete(total, withCandidates)
	t.Logf("%d sequences of %d requests; answers by status: %v; %d have allocation candidates", sequences, length, total, found)
}

// opening makes most names and some trees, so that later requests find something.
func (d drawer) opening() []operation {
	var out []operation
	for _, class := range []string{"CUSTOM_A", "CUSTOM_B"} {
		out = append(out, operation{version: "1.39", method: "PUT", path: "/resource_classes/" + class})
	}
	for _, trait := range []string{"CUSTOM_T1", "CUSTOM_T2"} {
		out = append(out, operation{version: "1.39", method: "PUT", path: "/traits/" + trait})
	}
	for i, id := range drawnProviders {
		if d.IntN(5) == 0 {
			continue
		}
		body := map[string]any{"name": fmt.Sprintf("host%d", i), "uuid": id}
		if i > 0 && d.IntN(2) == 0 {
			body["parent_provider_uuid"] = drawnProviders[d.IntN(i)]
		}
		out = append(out, operation{version: "1.39", method: "POST", path: "/resource_providers", body: fixed(body)})
		for _, class := range some(d.Rand, drawnClasses, 0.6) {
			inventory := d.inventory()
			inventory["resource_class"] = class
			out = append(out, operation{version: "1.39", method: "POST", path: "/resource_providers/" + id + "/inventories", body: fixed(inventory)})
		}
	}
	return out
}

func numberFrom(variable string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		return otherwise
	}
	return n
}
