package mirror

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
)

// recorded has the answers of a Placement 8.0.0 to all that a pass asks, by path.
const recorded = "testdata/placement-recorded.json.gz"

var update = flag.Bool("update", false, "ask Placement for "+recorded)

// realPlacement starts OpenStack's own without Keystone, or skips the test where it is not installed.
func realPlacement(t *testing.T) string {
	t.Helper()
	const python = "/usr/bin/python3"
	if out, err := exec.CommandContext(t.Context(), python, "-W", "ignore", "-c", "import placement.wsgi").CombinedOutput(); err != nil {
		t.Skipf("Placement is not installed (apt install python3-placement): %v: %.200s", err, out)
	}
	cmd := exec.Command(python, "-W", "ignore", "../testdata/serve_placement.py", t.TempDir())
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
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("Placement does not start: %v", err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}

// realFront is a proxy of Placement at base, which serves one request at a time, and a client of it.
func realFront(t *testing.T, base string) (http.Handler, *Client) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	front, err := Proxy(base, transport, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return front, clientOf(t, front)
}

func TestTap_RealPlacement_CellsBecomeEqualAndBack(t *testing.T) {
	testlong.Only(t, "TestTap_RandomWrites_AreCopied, TestPass_RandomPlacement_BecomesEqual and TestPass_RecordedPlacement_FillsCells")
	const steps = 600
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	front, real := realFront(t, realPlacement(t))
	w := newTraffic(t, seed, front)
	for range steps {
		w.step()
	}

	// Tap: Placement answers, and the cells follow.
	cells := newStore()
	cells.roomy = true
	api := apiOf(t, cells)
	m := New(real, clientOf(t, api), 2)
	cfg := TapConfig{CompareReads: 1 << 20, CompareSettled: testwait.Limit, PassEvery: time.Hour}
	t.Run("tap", func(t *testing.T) {
		tap := running(t, NewTap(cfg, m, front, api, slog.New(slog.DiscardHandler)))
		w.handler = tap
		for range steps {
			w.step()
		}
		await(t, "the pass at the start", func() bool { return tap.Status().Passes == 1 })
		await(t, "all is copied", func() bool { return tap.Status().Pending == 0 })
		for _, p := range w.providers {
			for _, what := range []string{"", "/inventories", "/traits", "/aggregates", "/allocations", "/usages"} {
				w.call(http.MethodGet, "/resource_providers/"+p+what, nil)
			}
		}
		for _, c := range w.consumers {
			w.call(http.MethodGet, "/allocations/"+c, nil)
		}
		await(t, "all reads are compared", func() bool { return len(tap.reads) == 0 && tap.Status().ReadsCompared > 5*len(w.providers) })
		if s := tap.Status(); len(s.ReadsDiffer) > 0 || s.CopyFailed > 0 {
			t.Errorf("%+v", s)
		}
	})
	if r := mustPass(t, m, PassConfig{}); sum(r.Counts)-r.Counts[ProviderDiffers] > 0 {
		t.Errorf("after the tap: %+v", r)
	}
	if r := mustPass(t, m, PassConfig{}); !r.Equal() {
		t.Errorf("after a pass: %+v", r)
	}

	// After the switch the cells answer, and Placement follows, so that one can go back to it.
	t.Run("back", func(t *testing.T) {
		back := New(clientOf(t, api), real, 2)
		tap := running(t, NewTap(cfg, back, api, nil, slog.New(slog.DiscardHandler)))
		w.handler = tap
		for range steps {
			w.step()
		}
		await(t, "the pass at the start", func() bool { return tap.Status().Passes == 1 })
		await(t, "all is copied", func() bool { return tap.Status().Pending == 0 || tap.Status().CopyFailed > 0 })
		r := mustPass(t, m, PassConfig{Dry: true})
		for _, l := range r.Lines {
			// Consumers that hold more in the cells than a capacity cannot be written to
			// Placement, and stay as they were there.
			if l.What != ConsumerExtra && l.What != ConsumerDiffers {
				t.Errorf("after the way back: %+v", l)
			}
		}
	})
}

// pathBody is a recorded answer.
type pathBody struct {
	Status int
	Body   json.RawMessage
}

// recording keeps the answers to reads.
type recording struct {
	http.Handler
	mu  sync.Mutex
	got map[string]pathBody
}

func (r *recording) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	answer := &recorder{ResponseWriter: w, keep: maxCompared}
	r.Handler.ServeHTTP(answer, req)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[req.URL.RequestURI()] = pathBody{answer.status, bytes.Clone(answer.body.Bytes())}
}

func TestPass_RecordedPlacement_FillsCells(t *testing.T) {
	if *update {
		record(t)
	}
	file, err := os.Open(recorded)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var answers map[string]pathBody
	if err := json.NewDecoder(z).Decode(&answers); err != nil {
		t.Fatal(err)
	}
	source := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := answers[r.URL.RequestURI()]
		if !ok {
			t.Errorf("%s was not recorded", r.URL)
			a.Status = http.StatusNotFound
		}
		w.WriteHeader(a.Status)
		_, _ = w.Write(a.Body)
	}))
	cells := newStore()
	cells.roomy = true
	api := apiOf(t, cells)
	m := New(source, clientOf(t, api), 0)
	r := mustPass(t, m, PassConfig{})
	if r.Failed > 0 || r.Counts[ProviderMissing] != r.Providers || r.Counts[ConsumerMissing] != r.Consumers || r.Providers < 10 || r.Consumers < 10 {
		t.Errorf("%+v", r)
	}
	if again := mustPass(t, m, PassConfig{}); !again.Equal() {
		t.Errorf("a second pass found %+v", again)
	}
	// The API over the cells answers as Placement did.
	compared := 0
	for uri, a := range answers {
		path, query, _ := strings.Cut(uri, "?")
		if path == "/" || path == "/resource_classes" || path == "/traits" {
			continue // standard names are of other releases
		}
		tap := NewTap(TapConfig{}, m, api, api, slog.New(slog.DiscardHandler))
		one := &read{path, query, "placement 1.39", a.Status, a.Body}
		if got := tap.ask(t.Context(), api, one); !equalAnswers(one, got) {
			t.Errorf("%s: %s, Placement: %s", uri, shorten(got), shorten(one))
		}
		compared++
	}
	if compared < 50 {
		t.Errorf("%d answers compared: too few", compared)
	}
}

// record fills a real Placement and keeps what a pass reads of it.
func record(t *testing.T) {
	front, _ := realFront(t, realPlacement(t))
	w := newTraffic(t, 5, front)
	for len(w.providers) < 15 || len(w.consumers) < 15 {
		w.step()
	}
	all := &recording{Handler: front, got: map[string]pathBody{}}
	mustPass(t, New(clientOf(t, all), clientOf(t, apiOf(t, newStore())), 0), PassConfig{})
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(z).Encode(all.got); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recorded, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
