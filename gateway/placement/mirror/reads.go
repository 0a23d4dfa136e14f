package mirror

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxCompared bounds an answer that is compared, in bytes.
const maxCompared = 1 << 20

// read is a GET request with the answer to it.
type read struct {
	path, query, version string
	status               int
	body                 []byte
}

// forwardRead forwards a read, and queues the answer for comparison.
func (t *Tap) forwardRead(w http.ResponseWriter, r *http.Request, path string) {
	if t.compared == nil || r.Method != http.MethodGet {
		t.front.ServeHTTP(w, r)
		return
	}
	answer := &recorder{ResponseWriter: w, keep: maxCompared}
	t.front.ServeHTTP(answer, r)
	if answer.status == http.StatusUnauthorized || answer.status == http.StatusForbidden || answer.status >= 500 {
		return // the caller was refused, or the source did not answer
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

// compareRead asks the target. If the answers differ, it asks both sides again while no write is under way and all
// copies are done. A read without such a time is not counted.
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

// writes gives the number of writes that began, and of those without an answer yet.
func (t *Tap) writes() (begun, running int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun, t.running
}

func shorten(r *read) string {
	return fmt.Sprintf("%d %s", r.status, r.body[:min(len(r.body), 2000)])
}

// settle waits until a pass has succeeded, no write is under way, and no copy is pending. It gives the number of
// writes that had begun by then; settled is false if that takes longer than CompareSettled.
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

// ask repeats a read with the mirror's own token.
func (t *Tap) ask(ctx context.Context, of http.Handler, one *read) *read {
	w := &answerWriter{header: http.Header{}}
	r := (&http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: one.path, RawQuery: one.query}, Header: http.Header{}, Body: http.NoBody,
		Host: "placement", RemoteAddr: "127.0.0.1:0", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	answer := *one
	token, err := t.mirror.source.token(ctx)
	if err != nil {
		answer.status, answer.body = http.StatusUnauthorized, []byte(err.Error())
		return &answer
	}
	r.Header.Set("X-Auth-Token", token)
	r.Header.Set("Accept", "application/json")
	if one.version != "" {
		r.Header.Set("OpenStack-API-Version", one.version)
	}
	of.ServeHTTP(w, r)
	answer.status, answer.body = cmp.Or(w.status, http.StatusOK), w.body.Bytes()
	return &answer
}

// answerWriter is an http.ResponseWriter in memory.
type answerWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *answerWriter) Header() http.Header { return w.header }

func (w *answerWriter) WriteHeader(status int) { w.status = cmp.Or(w.status, status) }

func (w *answerWriter) Write(b []byte) (int, error) { return w.body.Write(b) }

// pattern gives a path without its names, for counting.
func pattern(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		if i > 1 && i%2 == 0 {
			parts[i] = "{}"
		}
	}
	return strings.Join(parts, "/")
}

// equalAnswers compares statuses and, of successes, the JSON: lists in any order, without generations, since a target
// may have its own. Answers to a query with a limit only need as many candidates.
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
		return err.Error() // cannot happen: the value was decoded from JSON
	}
	return string(text)
}
