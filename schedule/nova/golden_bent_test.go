package nova

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"cellgate/internal/testlong"
)

// bentGolden has cases of testdata/bend_cases.py with Nova 26.2.2's answers, by
// testdata/nova_answers.py. They have odd texts, numbers, names and rows, which are rare in the
// bundled cases. If Nova is installed, CELLGATE_BEND=N writes N new cases.
const bentGolden = "testdata/nova-bent.jsonl.gz"

func TestBentCases(t *testing.T) {
	if n, err := strconv.Atoi(os.Getenv("CELLGATE_BEND")); err == nil {
		b := askBent(t, n, 1)
		if err := os.WriteFile(bentGolden, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	compareBent(t, bentGolden, loadCases(t, bentGolden), 500)
}

// Each run draws new cases, which the installed Nova answers. Their exceptions are compared by
// class alone: the message for an unforeseen Python object may differ here, but not in the cases of
// bentGolden.
func TestBentAgainstNova(t *testing.T) {
	testlong.Only(t, "TestBentCases")
	n, seed := 1500, time.Now().UnixNano()%1_000_000
	name := filepath.Join(t.TempDir(), "bent.jsonl.gz")
	if err := os.WriteFile(name, askBent(t, n, seed), 0o600); err != nil {
		t.Fatal(err)
	}
	compareBent(t, name, reworded(loadCases(t, name)), n*3/4)
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

// reworded makes the exceptions of the cases compared by class alone.
func reworded(cases []*goldenCase) []*goldenCase {
	for _, c := range cases {
		if e := c.Expected.Error; e != nil {
			e.reworded = true
		}
		for f, e := range c.Expected.PerFilterError {
			e.reworded = true
			c.Expected.PerFilterError[f] = e
		}
	}
	return cases
}

func compareBent(t *testing.T, file string, cases []*goldenCase, least int) {
	t.Helper()
	if len(cases) < least {
		t.Errorf("%d cases, at least %d are to be there", len(cases), least)
	}
	scoresOf(t, file, cases).settle(t)
}

// askBent draws cases and has Nova answer them. It leaves out those that Nova does not accept as
// requests, and skips the test if Nova is not installed.
func askBent(t *testing.T, n int, seed int64) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: Nova takes seconds to start")
	}
	const python = "/usr/bin/python3"
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import nova.scheduler.utils").CombinedOutput(); err != nil {
		t.Skipf("Nova cannot be asked (apt install python3-nova): %v: %.200s", err, out)
	}
	run := func(stdin []byte, args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), python, args...)
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v: %.2000s", args, err, stderr.String())
		}
		return out
	}
	cases := run(nil, "testdata/bend_cases.py", bundledGolden, strconv.Itoa(n), strconv.FormatInt(seed, 10))
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(run(cases, "-W", "ignore", "testdata/nova_answers.py")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
