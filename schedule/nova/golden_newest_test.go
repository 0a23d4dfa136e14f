package nova

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"

	"cellgate/schedule"
)

// newestGolden has the answers of Nova 33.0.0 (2026.1) to the bundled and the bent cases, by case
// id (testdata/newest_answers.py). CELLGATE_NEWEST=FOLDER asks again; the script needs its clones
// in that folder.
const newestGolden = "testdata/nova-newest.jsonl.gz"

// The newest release decides like Zed, and like this package, except for the cases that newerRule
// names.
func TestNewestCases(t *testing.T) {
	if folder := os.Getenv("CELLGATE_NEWEST"); folder != "" {
		writeNewest(t, folder)
	}
	cases, left := newestCases(t)
	if len(cases) < 1100 || left > 60 {
		t.Errorf("%d cases, and %d that are left out", len(cases), left)
	}
	scoresOf(t, newestGolden, cases).settle(t)
}

// newestCases are the cases with the newest release's answers. left is the number of cases that
// newerRule leaves out.
func newestCases(t *testing.T) (cases []*goldenCase, left int) {
	t.Helper()
	answers := map[string]*goldenExpected{}
	f, err := os.Open(newestGolden)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // the file was only read
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var line struct {
			ID       string          `json:"id"`
			Expected *goldenExpected `json:"expected"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		answers[line.ID] = line.Expected
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Concat(loadCases(t, bundledGolden), loadCases(t, bentGolden)) {
		if answers[c.ID] == nil {
			t.Errorf("%s has no answer", c.ID)
			continue
		}
		if c.newerRule() != "" {
			left++
			continue
		}
		c.Expected, c.Nova = *answers[c.ID], "33.0.0"
		c.Config.EnabledFilters = slices.DeleteFunc(c.Config.EnabledFilters, func(f string) bool { return f == schedule.ZoneFilter })
		cases = append(cases, c)
	}
	return cases, left
}

// newerRule names the rule by which the newest release decides the case unlike Zed and the core;
// "": there is none. docs/reference/nova-parity.md describes it.
func (c *goldenCase) newerRule() string {
	for i := range c.ComputeNodes {
		if v := c.ComputeNodes[i].HypervisorVersion; v > 0 && v < 1000 {
			return "versions of one number"
		}
	}
	return ""
}

func writeNewest(t *testing.T, folder string) {
	t.Helper()
	var cases []byte
	for _, name := range []string{bundledGolden, bentGolden} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		cases = fmt.Appendf(append(cases, bytes.TrimSpace(b)...), "\n")
	}
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-W", "ignore", "testdata/newest_answers.py", folder)
	var out, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(cases), &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %.2000s", err, stderr.String())
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(newestGolden, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
