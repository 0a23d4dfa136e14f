package nova

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cellgate/schedule"
)

// releaseGolden has cases for filters and weighers that the other cases' release lacks.
// testdata/release_cases.py drew the cases. The filters' own code, in the releases of
// nova-releases.json, answered them (testdata/release_answers.py). CELLGATE_RELEASES=N writes N new
// cases. This needs an installed Nova, and in CELLGATE_NOVA_CLONE the git directory of a clone of
// Nova with its tags.
const (
	releaseGolden = "testdata/nova-releases.jsonl.gz"
	releaseIndex  = "testdata/nova-releases.json"
)

// releases says where a filter's or weigher's answers come from.
type releases struct {
	Releases map[string]struct {
		Name   string `json:"name"`
		Commit string `json:"commit"`
	} `json:"releases"`
	Filters  map[string]releaseSource `json:"filters"`
	Weighers map[string]releaseSource `json:"weighers"`
}

type releaseSource struct {
	File     string   `json:"file"`
	Releases []string `json:"releases"`
}

func loadReleases(t *testing.T) *releases {
	t.Helper()
	b, err := os.ReadFile(releaseIndex)
	if err != nil {
		t.Fatal(err)
	}
	r := new(releases)
	if err := json.Unmarshal(b, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// namesOf names the releases that answered for a filter or weigher; "" if none did.
func (r *releases) namesOf(name string) string {
	source, ok := r.Filters[name]
	if !ok {
		source = r.Weighers[name]
	}
	var names []string
	for _, n := range source.Releases {
		names = append(names, fmt.Sprintf("%s (%s)", n, r.Releases[n].Name))
	}
	return strings.Join(names, " and ")
}

// Each of Nova's filters is in filtersAlone or in releaseIndex; notNovas names the others.
func TestReleases_EveryFilter_HasBeenAskedOfNova(t *testing.T) {
	r := loadReleases(t)
	for _, f := range schedule.Filters() {
		if notNovas[f] == "" && !slices.Contains(filtersAlone, f) && r.namesOf(f) == "" {
			t.Errorf("no release of Nova has answered for %s; if Nova lacks it, it needs a row of notNovas", f)
		}
	}
}

func TestReleaseCases(t *testing.T) {
	if n, err := strconv.Atoi(os.Getenv("CELLGATE_RELEASES")); err == nil {
		if err := os.WriteFile(releaseGolden, askReleases(t, n, 1), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	compareReleases(t, releaseGolden, 600, 20)
}

// Each run draws new cases, which the code in the clone of Nova answers.
func TestReleasesAgainstNova(t *testing.T) {
	n, seed := 60, time.Now().UnixNano()%1_000_000
	if os.Getenv("CELLGATE_LONG") != "" {
		n = 1500
	}
	name := filepath.Join(t.TempDir(), "releases.jsonl.gz")
	if err := os.WriteFile(name, askReleases(t, n, seed), 0o600); err != nil {
		t.Fatal(err)
	}
	compareReleases(t, name, n, 0)
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

// compareReleases also demands that in so many cases each filter rejects hosts, and each weigher
// gives hosts different raw weights.
func compareReleases(t *testing.T, name string, least, saying int) {
	t.Helper()
	cases := loadCases(t, name)
	if len(cases) < least {
		t.Errorf("%d cases, at least %d are to be there", len(cases), least)
	}
	all := scoresOf(t, name, cases)
	all.settle(t)
	r := loadReleases(t)
	for _, list := range []map[string]releaseSource{r.Filters, r.Weighers} {
		for name := range list {
			if x := all.scoreOf(name); x.cases < least/3 || x.rejecting < saying {
				t.Errorf("%s: %d cases, of which %d say something", name, x.cases, x.rejecting)
			}
		}
	}
}

// askReleases draws cases and has Nova's code answer them. It skips the test if CELLGATE_NOVA_CLONE
// is not set.
func askReleases(t *testing.T, n int, seed int64) []byte {
	t.Helper()
	clone := os.Getenv("CELLGATE_NOVA_CLONE")
	if clone == "" {
		t.Skip("CELLGATE_NOVA_CLONE names no git directory of a clone of Nova: the filters of other releases cannot be asked anew")
	}
	run := func(stdin []byte, args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", args...)
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v: %.2000s", args, err, stderr.String())
		}
		return out
	}
	cases := run(nil, "testdata/release_cases.py", bundledGolden, strconv.Itoa(n), strconv.FormatInt(seed, 10))
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(run(cases, "-W", "ignore", "testdata/release_answers.py", clone)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
