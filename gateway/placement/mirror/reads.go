package mirror

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxCompared bounds the answers that are compared, in bytes.
const maxCompared = 1 << 20

// read is a read that the source answered.
type read struct {
	path, query, version string
	status               int
	body                 []byte
}

// Status is what a tap has done since its start.
type Status struct {
	// Writes were answered by the source; Copied and CopyFailed are copies of what they wrote, Pending those to come.
	Writes, Copied, CopyFailed, Pending int
	LastError                           string `json:",omitempty"`
	// ReadsCompared had the same answer from both sides, but for those that ReadsDiffer counts by path. Reads that were too
	// many or too long to be compared, or met writes each time, are in neither.
	ReadsCompared int
	ReadsDiffer   map[string]int
	// LastDiffering is the last of these; nil for none.
	LastDiffering *DifferingRead
	// Passes have compared everything.
	Passes int
}

// DifferingRead is a read that both sides answered differently.
type DifferingRead struct {
	Path, Microversion string
	Source, Target     string
}

// Status gives the counts.
func (t *Tap) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.status
	s.Pending = t.queue.pending()
	s.ReadsDiffer = maps.Clone(t.status.ReadsDiffer)
	return s
}

// forwardRead forwards, and hands the answer over to be compared.
func (t *Tap) forwardRead(w http.ResponseWriter, r *http.Request, path string) {
	if t.compared == nil || r.Method != http.MethodGet {
		t.front.ServeHTTP(w, r)
		return
	}
	answer := &recorder{ResponseWriter: w, keep: maxCompared}
	t.front.ServeHTTP(answer, r)
	if answer.status == http.StatusUnauthorized || answer.status == http.StatusForbidden || answer.status >= 500 {
		return // the target was not asked by this caller, or the source did not answer
	}
	one := read{path, r.URL.RawQuery, r.Header.Get("OpenStack-API-Version"), answer.status, answer.body.Bytes()}
	if answer.keep > 0 {
		select {
		case t.reads <- one:
		default: // too many
		}
	}
}

func (t *Tap) compareReads(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case one := <-t.reads:
			t.compareRead(ctx, &one)
		}
	}
}

// compareRead asks the target. When that differs, both are asked again while nothing is written and all that was is
// copied. A read for which there is no such time is left.
func (t *Tap) compareRead(ctx context.Context, one *read) {
	target := t.ask(ctx, t.compared, one)
	equal, quiet := equalAnswers(one, target), true
	for range readTries {
		if equal {
			break
		}
		begun, settled := t.settle(ctx)
		if !settled {
			quiet = false
			break
		}
		one = t.ask(ctx, t.front, one)
		target = t.ask(ctx, t.compared, one)
		equal = equalAnswers(one, target)
		now, running := t.writes()
		if quiet = now == begun && running == 0; quiet {
			break
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !equal && !quiet {
		return
	}
	t.status.ReadsCompared++
	if equal {
		return
	}
	t.status.ReadsDiffer[pattern(one.path)]++
	t.status.LastDiffering = &DifferingRead{one.path + "?" + one.query, one.version, shorten(one), shorten(target)}
}

// writes are those that began, and those that are not answered yet.
func (t *Tap) writes() (begun, running int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun, t.running
}

func shorten(r *read) string {
	return fmt.Sprintf("%d %s", r.status, r.body[:min(len(r.body), 2000)])
}

// settle waits until everything was compared once, no write is under way and nothing is to be copied, and says how many
// writes had begun by then; false when that takes longer than CompareSettled.
func (t *Tap) settle(ctx context.Context) (begun int, settled bool) {
	limit := time.NewTimer(t.cfg.CompareSettled)
	defer limit.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		begun, running := t.writes()
		if s := t.Status(); running == 0 && s.Pending == 0 && s.Passes > 0 {
			return begun, true
		}
		select {
		case <-ctx.Done():
			return 0, false
		case <-limit.C:
			return 0, false
		case <-poll.C:
		}
	}
}

// ask repeats a read, as the mirror's user.
func (t *Tap) ask(ctx context.Context, of http.Handler, one *read) *read {
	w := &answerWriter{header: http.Header{}}
	r := (&http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: one.path, RawQuery: one.query}, Header: http.Header{}, Body: http.NoBody,
		Host: "placement", RemoteAddr: "127.0.0.1:0", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	token, err := t.mirror.source.token(ctx)
	if err != nil {
		return &read{one.path, one.query, one.version, http.StatusUnauthorized, []byte(err.Error())}
	}
	r.Header.Set("X-Auth-Token", token)
	r.Header.Set("Accept", "application/json")
	if one.version != "" {
		r.Header.Set("OpenStack-API-Version", one.version)
	}
	of.ServeHTTP(w, r)
	return &read{one.path, one.query, one.version, cmp.Or(w.status, http.StatusOK), w.body.Bytes()}
}

// answerWriter is an answer in memory.
type answerWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *answerWriter) Header() http.Header { return w.header }

func (w *answerWriter) WriteHeader(status int) { w.status = cmp.Or(w.status, status) }

func (w *answerWriter) Write(b []byte) (int, error) { return w.body.Write(b) }

// pattern is a path without its names, to count by.
func pattern(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		if i > 1 && i%2 == 0 {
			parts[i] = "{}"
		}
	}
	return strings.Join(parts, "/")
}

// equalAnswers compares statuses and, of successes, the JSON: lists in any order, without generations, which a target
// counts by itself. Answers to a limit have as many candidates.
func equalAnswers(a, b *read) bool {
	if a.status != b.status || a.status >= 300 {
		return a.status == b.status
	}
	var x, y any
	if json.Unmarshal(a.body, &x) != nil || json.Unmarshal(b.body, &y) != nil {
		return bytes.Equal(a.body, b.body)
	}
	if query, err := url.ParseQuery(a.query); err == nil && query.Has("limit") {
		return countCandidates(x) == countCandidates(y)
	}
	return encoded(normalize(x)) == encoded(normalize(y))
}

func countCandidates(v any) int {
	body, _ := v.(map[string]any)
	list, _ := body["allocation_requests"].([]any)
	return len(list)
}

func normalize(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, ours := range []string{"generation", "resource_provider_generation", "consumer_generation", "links"} {
			delete(v, ours)
		}
		for key := range v {
			v[key] = normalize(v[key])
		}
	case []any:
		for i := range v {
			v[i] = normalize(v[i])
		}
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(encoded(a), encoded(b)) })
	}
	return v
}

func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // what was decoded can be encoded
	}
	return string(text)
}
