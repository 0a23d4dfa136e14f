package mirror

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cellgate/gateway/placement"
	"cellgate/internal/fault"
	"cellgate/internal/ingress"
	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// apiOf is the Placement API over a store.
func apiOf(t testing.TB, s *store) http.Handler {
	t.Helper()
	return placement.New(placement.Config{TrustLoopback: true}, placement.Deps{Backend: s, Log: slog.New(slog.DiscardHandler)})
}

// mirrorOf mirrors one store to another one, each behind its API.
func mirrorOf(t testing.TB, source, target *store, parallel int) *Mirror {
	t.Helper()
	return New(clientOf(t, apiOf(t, source)), clientOf(t, apiOf(t, target)), parallel)
}

func clientOf(t testing.TB, h http.Handler) *Client {
	t.Helper()
	c, err := NewClient(t.Context(), "http://placement", local{h}, StaticToken("admin"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// contents writes all that a store has, without cells and generations.
func (s *store) contents() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	fmt.Fprintln(&out, s.names[placement.ClassName], s.names[placement.TraitName])
	for _, id := range slices.Sorted(maps.Keys(s.providers)) {
		p := s.providers[id]
		p.Cell, p.Used, p.Generation = "", nil, 0
		p.Traits, p.Aggregates = append([]string{}, p.Traits...), append([]string{}, p.Aggregates...)
		fmt.Fprintf(&out, "%+v\n", p)
	}
	for _, id := range slices.Sorted(maps.Keys(s.consumers)) {
		c := s.consumers[id]
		c.Generation = 0
		fmt.Fprintf(&out, "%+v\n", c)
	}
	return out.String()
}

func mustPass(t *testing.T, m *Mirror, cfg PassConfig) *Report {
	t.Helper()
	r, err := m.Pass(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPass_RandomPlacement_BecomesEqual(t *testing.T) {
	seed := rand.Uint64()
	source, target := newStore(), newStore()
	w := newTraffic(t, seed, apiOf(t, source))
	m := mirrorOf(t, source, target, 4)
	rounds := 5
	if testlong.On() {
		rounds = 12
	}
	equal := 0
	for round := range rounds {
		for range 60 {
			w.step()
		}
		if round%3 == 2 { // somebody else wrote to the target
			other := newTraffic(t, seed+uint64(round), apiOf(t, target))
			other.providers, other.consumers, other.id = slices.Clone(w.providers), slices.Clone(w.consumers), 100000*(round+1)
			for range 20 {
				other.step()
			}
		}
		before := target.contents()
		dry := mustPass(t, m, PassConfig{Dry: true})
		if target.contents() != before {
			t.Fatal("a dry pass wrote")
		}
		if sum(dry.Counts) == 0 && source.contents() != before {
			t.Errorf("seed %d: a dry pass saw no difference", seed)
		}
		r := mustPass(t, m, PassConfig{})
		if r.Failed > 0 { // writes that depend on each other may need another pass
			r = mustPass(t, m, PassConfig{})
		}
		for _, l := range r.Lines {
			// Allocations from before a capacity was lowered cannot be written.
			if l.Error != "" && !strings.Contains(l.Error, "exceed the capacity") && !strings.Contains(l.Error, "violate inventory constraints") {
				t.Errorf("seed %d: %+v", seed, l)
			}
		}
		if r.Failed > 0 {
			continue
		}
		equal++
		if got, want := target.contents(), source.contents(); got != want {
			t.Fatalf("seed %d: after %+v\n%s\nwant\n%s", seed, r, got, want)
		}
		if again := mustPass(t, m, PassConfig{}); !again.Equal() {
			t.Fatalf("seed %d: a second pass found %+v", seed, again)
		}
	}
	if w.done < 200 || len(source.consumers) == 0 || equal == 0 {
		t.Errorf("%d writes, %d consumers, %d rounds without a refused allocation: too few", w.done, len(source.consumers), equal)
	}
}

// An answer without a silent cell's data says nothing of that cell's providers: a pass neither reports nor makes them.
func TestPass_ACellIsSilent_IsAnError(t *testing.T) {
	source, target := newStore(), newStore()
	w := newTraffic(t, 1, apiOf(t, source))
	for range 40 {
		w.step()
	}
	api := apiOf(t, target)
	silent := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/resource_providers" {
			w.Header().Set(placement.SilentHeader, "two")
		}
		api.ServeHTTP(w, r)
	})
	for _, dry := range []bool{true, false} {
		r, err := New(clientOf(t, apiOf(t, source)), clientOf(t, silent), 0).Pass(t.Context(), PassConfig{Dry: dry})
		if err == nil || !strings.Contains(err.Error(), "two") || target.writes != 0 {
			t.Errorf("dry %v: %+v, %v, %d writes", dry, r, err, target.writes)
		}
	}
}

func sum(counts map[What]int) (n int) {
	for _, of := range counts {
		n += of
	}
	return n
}

// The list of a provider's consumers does not show whose they are.
func TestPass_OwnerDiffersInTarget_IsCopied(t *testing.T) {
	source, target := newStore(), newStore()
	w := newTraffic(t, 7, apiOf(t, source))
	for range 300 {
		w.step()
	}
	target.roomy = true
	m := mirrorOf(t, source, target, 0)
	mustPass(t, m, PassConfig{})
	for id, c := range target.consumers {
		c.ProjectID = "other"
		target.consumers[id] = c
	}
	if r := mustPass(t, m, PassConfig{}); r.Counts[ConsumerDiffers] != len(source.consumers) || target.contents() != source.contents() {
		t.Errorf("%+v, %d consumers", r, len(source.consumers))
	}
}

// In the source each consumer has moved on to the next provider, which has another class
// since. No copy waits for all others.
func TestCopyConsumer_RowOfProviders_CopiesWhatItHolds(t *testing.T) {
	source, target := newStore(), newStore()
	const row = 2 * maxDepth
	inventory := placement.Inventory{Total: 8, MinUnit: 1, MaxUnit: 8, StepSize: 1, AllocationRatio: 1}
	id := func(kind byte, n int) string { return fmt.Sprintf("%c0000000-0000-4000-8000-%012d", kind, n%row) }
	for s, at := range map[*store]struct {
		class string
		moved int
		since int64
	}{target: {"VCPU", 0, 1}, source: {"MEMORY_MB", 1, 2}} {
		for n := range row {
			s.providers[id('a', n)] = placement.Provider{
				UUID: id('a', n), RootUUID: id('a', n), Name: fmt.Sprint("host", n), Generation: at.since,
				Inventories: map[string]placement.Inventory{at.class: inventory},
			}
			s.consumers[id('c', n)] = placement.Consumer{
				UUID: id('c', n), Generation: at.since, ProjectID: "p", UserID: "u", Type: "INSTANCE",
				Allocations: placement.Allocations{id('a', n+at.moved): {at.class: 1}},
			}
		}
	}
	m := mirrorOf(t, source, target, 0)
	if err := m.CopyConsumer(t.Context(), id('c', 0)); err != nil {
		t.Fatal(err)
	}
	if got := target.consumers[id('c', 0)].Allocations; !equalAllocations(got, source.consumers[id('c', 0)].Allocations) {
		t.Errorf("it holds %v", got)
	}
	if r := mustPass(t, m, PassConfig{}); r.Failed > 0 || target.contents() != source.contents() {
		t.Errorf("%+v", r)
	}
}

// interrupted is the API of a target before whose first write something else happens.
type interrupted struct {
	http.Handler
	first func()
}

func (i *interrupted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if first := i.first; first != nil && r.Method != http.MethodGet {
		i.first = nil
		first()
	}
	i.Handler.ServeHTTP(w, r)
}

// Between a mirror's read and its write, the source is written again, and another mirror copies that. No generation
// shows it: these writes have none in the source, or leave none in the target.
func TestCopy_OtherMirrorWasFaster_NewerStateStays(t *testing.T) {
	const host, child, consumer = "a0000000-0000-4000-8000-000000000001", "a0000000-0000-4000-8000-000000000002", "c0000000-0000-4000-8000-000000000001"
	named := func(name string, parent any) map[string]any {
		return map[string]any{"name": name, "parent_provider_uuid": parent}
	}
	type write struct {
		method, path string
		body         any
	}
	provider := func(m *Mirror) error { return m.CopyProvider(t.Context(), child, "") }
	for name, c := range map[string]struct {
		older, newer write
		copied       func(*Mirror) error
	}{
		"parent": {write{http.MethodPut, "/resource_providers/" + child, named("child", host)}, write{http.MethodPut, "/resource_providers/" + child, named("child", nil)}, provider},
		"name":   {write{http.MethodPut, "/resource_providers/" + child, named("first", nil)}, write{http.MethodPut, "/resource_providers/" + child, named("second", nil)}, provider},
		"provider made and deleted": {
			write{http.MethodPost, "/resource_providers", map[string]any{"uuid": "a0000000-0000-4000-8000-000000000003", "name": "short"}},
			write{http.MethodDelete, "/resource_providers/a0000000-0000-4000-8000-000000000003", nil},
			func(m *Mirror) error { return m.CopyProvider(t.Context(), "a0000000-0000-4000-8000-000000000003", "") },
		},
		"consumer made and deleted": {
			write{http.MethodPut, "/allocations/" + consumer, map[string]any{
				"allocations": map[string]any{host: map[string]any{"resources": map[string]any{"VCPU": 1}}},
				"project_id":  "p", "user_id": "u", "consumer_generation": nil, "consumer_type": "INSTANCE",
			}},
			write{http.MethodDelete, "/allocations/" + consumer, nil},
			func(m *Mirror) error { return m.CopyConsumer(t.Context(), consumer) },
		},
		"trait": {
			write{http.MethodPut, "/traits/CUSTOM_SHORT", nil},
			write{http.MethodDelete, "/traits/CUSTOM_SHORT", nil},
			func(m *Mirror) error { return m.CopyNames(t.Context(), placement.TraitName) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			source, target := newStore(), newStore()
			w := newTraffic(t, 1, apiOf(t, source))
			must := func(one write) {
				t.Helper()
				if !w.write(one.method, one.path, one.body) {
					t.Fatalf("%s %s was refused", one.method, one.path)
				}
			}
			must(write{http.MethodPost, "/resource_providers", map[string]any{"uuid": host, "name": "host"}})
			must(write{http.MethodPut, "/resource_providers/" + host + "/inventories", map[string]any{
				"resource_provider_generation": 0, "inventories": map[string]any{"VCPU": map[string]any{"total": 8}},
			}})
			must(write{http.MethodPost, "/resource_providers", map[string]any{"uuid": child, "name": "child"}})
			m := mirrorOf(t, source, target, 0)
			mustPass(t, m, PassConfig{})
			must(c.older)
			slow := &interrupted{apiOf(t, target), func() {
				must(c.newer)
				if err := c.copied(m); err != nil {
					t.Error(err)
				}
			}}
			if err := c.copied(New(m.source, clientOf(t, slow), 0)); err != nil {
				t.Fatal(err)
			}
			if slow.first != nil {
				t.Error("nothing was written")
			}
			if got, want := target.contents(), source.contents(); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestPass_NamesInACircle_AreCopied(t *testing.T) {
	source, target := newStore(), newStore()
	w := newTraffic(t, 1, apiOf(t, source))
	ids := []string{w.uuid('a'), w.uuid('a'), w.uuid('a')}
	for i, id := range ids {
		w.write(http.MethodPost, "/resource_providers", map[string]any{"uuid": id, "name": fmt.Sprint("n", i)})
	}
	m := mirrorOf(t, source, target, 1)
	mustPass(t, m, PassConfig{})
	for i, name := range map[int]string{0: "n1", 1: "n2", 2: "n0"} {
		p := source.providers[ids[i]]
		p.Name = name
		source.providers[ids[i]] = p
	}
	if r := mustPass(t, m, PassConfig{}); r.Failed > 0 || target.contents() != source.contents() {
		t.Errorf("%+v\n%s", r, target.contents())
	}
}

// Consumers on a host of an agent are claims, which the source may not know.
func TestPass_TreeOfAnAgent_IsCountedAndLeft(t *testing.T) {
	source, target := newStore(), newStore()
	w := newTraffic(t, 1, apiOf(t, source))
	p := w.uuid('a')
	w.write(http.MethodPost, "/resource_providers", map[string]any{"uuid": p, "name": "new"})
	q, gone, claim := w.uuid('a'), w.uuid('a'), w.uuid('b')
	here := newTraffic(t, 1, apiOf(t, target))
	for _, id := range []string{p, q, gone} {
		here.write(http.MethodPost, "/resource_providers", map[string]any{"uuid": id, "name": "old" + id})
	}
	target.agents[p], target.agents[q] = true, true
	target.consumers[claim] = placement.Consumer{UUID: claim, Generation: 1, Allocations: placement.Allocations{q: {"VCPU": 1}}}
	before := target.providers[p].Name
	m, untouched := mirrorOf(t, source, target, 0), target.contents()
	dry := mustPass(t, m, PassConfig{Dry: true})
	if target.contents() != untouched {
		t.Error("a dry pass wrote")
	}
	r := mustPass(t, m, PassConfig{})
	if !maps.Equal(dry.Counts, r.Counts) {
		t.Errorf("a dry pass counts %v, the real one %v", dry.Counts, r.Counts)
	}
	if r.Counts[ProviderAgents] != 2 || r.Counts[ConsumerAgents] != 1 || r.Failed != 0 || target.providers[p].Name != before {
		t.Errorf("%+v, %+v", r, target.providers[p])
	}
	if _, there := target.providers[gone]; there || len(target.consumers) != 1 {
		t.Errorf("consumers %v, the provider that the source lacks is there %t", target.consumers, there)
	}
}

// roots makes many providers without contents, numbered from first on.
func (w *traffic) roots(first, many int) {
	w.t.Helper()
	for i := first; i < first+many; i++ {
		id := fmt.Sprintf("a0000000-0000-4000-8000-%012d", i)
		if !w.write(http.MethodPost, "/resource_providers", map[string]any{"uuid": id, "name": id}) {
			w.t.Fatal("not written")
		}
	}
}

// A pass that would delete most providers is refused: the flags of the two sides may be swapped, or
// one may name another Placement.
func TestPass_MostProvidersWouldGo_IsRefusedUnlessAllowed(t *testing.T) {
	for _, c := range []struct {
		name                             string
		listed, had, extra, agents, gone int
	}{
		{"empty source", 0, 1, 1, 0, 1},
		{"empty source, hosts of agents", 0, 2, 2, 2, 0},
		{"two of three", 1, 3, 2, 0, -1},
		{"most", 5, 12, 7, 0, 7},
		{"half", 6, 12, 6, 0, -1},
		{"half but for hosts of agents", 3, 12, 9, 3, -1},
		{"nothing there", 0, 0, 0, 0, -1},
		{"equal", 12, 12, 0, 0, -1},
	} {
		source, target := newStore(), newStore()
		w, here := newTraffic(t, 1, apiOf(t, source)), newTraffic(t, 1, apiOf(t, target))
		w.roots(c.extra, c.listed) // the first are extra
		here.roots(0, c.had)
		for i := range c.agents {
			target.agents[fmt.Sprintf("a0000000-0000-4000-8000-%012d", i)] = true
		}
		w.write(http.MethodPut, "/traits/CUSTOM_NEW", nil)
		m, before := mirrorOf(t, source, target, 0), target.contents()
		dry := mustPass(t, m, PassConfig{Dry: true})
		_, err := m.Pass(t.Context(), PassConfig{})
		var refused *DeletionsError
		if errors.As(err, &refused) != (c.gone >= 0) || (dry.Refused != "") != (c.gone >= 0) {
			t.Fatalf("%s: %v, dry %q", c.name, err, dry.Refused)
		}
		if refused == nil {
			continue
		}
		if refused.Listed != c.listed || refused.Had != c.had || refused.Deleted != c.gone || target.contents() != before {
			t.Errorf("%s: %v\n%s", c.name, refused, target.contents())
		}
		if !strings.Contains(err.Error(), "http://placement has") {
			t.Errorf("%s: %v", c.name, err)
		}
		mustPass(t, m, PassConfig{AllowDeletions: true})
		if len(target.providers) != c.listed+c.agents {
			t.Errorf("%s: %d providers are left", c.name, len(target.providers))
		}
	}
}

func TestTap_FirstPassWouldDeleteMost_EndsAndDeletesNothing(t *testing.T) {
	source, target := newStore(), newStore()
	newTraffic(t, 1, apiOf(t, target)).roots(0, 1)
	tap := tapOf(t, TapConfig{}, source, target)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- tap.Run(ctx) }()
	await(t, "the tap ends", func() bool { return len(ended) > 0 || tap.Status().Passes > 0 })
	cancel()
	var refused *DeletionsError
	if err := <-ended; !errors.As(err, &refused) || !strings.Contains(err.Error(), "http://placement has 1") || len(target.providers) != 1 {
		t.Errorf("%v, %d providers", err, len(target.providers))
	}
}

// Once both sides were equal, what the source deletes is deleted.
func TestTap_LaterPass_DeletesAll(t *testing.T) {
	source, target := newStore(), newStore()
	newTraffic(t, 1, apiOf(t, source)).roots(0, 12)
	tap := running(t, tapOf(t, TapConfig{PassEvery: 10 * time.Millisecond}, source, target))
	await(t, "the first pass", func() bool { return tap.Status().Passes > 0 })
	source.mu.Lock()
	clear(source.providers)
	source.mu.Unlock()
	await(t, "all are deleted", func() bool {
		target.mu.Lock()
		defer target.mu.Unlock()
		return len(target.providers) == 0
	})
}

// A Placement accepts no unknown type. The type that is written there instead is no difference on the way back.
func TestPass_UnknownTypeOnTheWayBack_IsEqual(t *testing.T) {
	cells, old := newStore(), newStore()
	here, there := newTraffic(t, 1, apiOf(t, cells)), newTraffic(t, 1, apiOf(t, old))
	p, c := here.uuid('a'), here.uuid('b')
	here.write(http.MethodPost, "/resource_providers", map[string]any{"uuid": p, "name": "host"})
	here.write(http.MethodPut, "/resource_providers/"+p+"/inventories", map[string]any{
		"resource_provider_generation": 0, "inventories": map[string]any{"VCPU": map[string]any{"total": 8}},
	})
	cells.consumers[c] = placement.Consumer{
		UUID: c, Generation: 1, ProjectID: "p", UserID: "u", Type: placement.UnknownType, Allocations: placement.Allocations{p: {"VCPU": 1}},
	}
	from, to := clientOf(t, here.handler), clientOf(t, there.handler)
	mustPass(t, New(from, to, 0), PassConfig{})
	if got := old.consumers[c].Type; got != typeOfUnknown {
		t.Fatalf("written as %q", got)
	}
	for _, m := range []*Mirror{New(from, to, 0), New(to, from, 0)} {
		if r := mustPass(t, m, PassConfig{Dry: true}); r.Counts[ConsumerDiffers] != 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestCopyProvider_NewRoot_GoesToTheCell(t *testing.T) {
	source, target := newStore(), newStore()
	w := newTraffic(t, 1, apiOf(t, source))
	p := w.uuid('a')
	w.write(http.MethodPost, "/resource_providers", map[string]any{"uuid": p, "name": "host"})
	to := clientOf(t, apiOf(t, target))
	to.base += "/cells/one"
	if err := New(clientOf(t, w.handler), to, 0).CopyProvider(t.Context(), p, "two"); err != nil || target.providers[p].Cell != "two" {
		t.Errorf("%v, in the cell %q", err, target.providers[p].Cell)
	}
}

func TestPass_TargetDown_ReturnsItsError(t *testing.T) {
	w := newTraffic(t, 1, apiOf(t, newStore()))
	target := newStore()
	to := clientOf(t, apiOf(t, target))
	target.down = errors.New("no cell answers")
	if _, err := New(clientOf(t, w.handler), to, 0).Pass(t.Context(), PassConfig{}); statusOf(err) != http.StatusInternalServerError {
		t.Error(err)
	}
}

func TestNewClient_WrongPlacement_IsRefused(t *testing.T) {
	for _, c := range []struct{ base, answer, want string }{
		{"placement:8778", "", "no http or https URL"},
		{"http://placement", `{"versions": []}`, "does not answer as a Placement"},
		{"http://placement", `{"versions": [{"max_version": "2"}]}`, "max_version"},
		{"http://placement", `{"versions": [{"max_version": "1.17"}]}`, "no microversion 1.28"},
		{"http://placement", `<html>`, "is not Placement's"},
	} {
		_, err := NewClient(t.Context(), c.base, local{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(c.answer))
		})}, StaticToken("admin"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.base, c.answer, err, c.want)
		}
	}
}

// tapOf makes a tap of one store, which copies to another one and compares reads.
func tapOf(t testing.TB, cfg TapConfig, source, target *store) *Tap {
	t.Helper()
	return NewTap(cfg, mirrorOf(t, source, target, 1), apiOf(t, source), apiOf(t, target), slog.New(slog.DiscardHandler))
}

// running runs a tap until the test ends.
func running(t *testing.T, tap *Tap) *Tap {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tap.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return tap
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.After(testwait.Limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-limit:
			t.Fatal("still waiting: " + what)
		case <-tick.C:
		}
	}
}

func TestTap_RandomWrites_AreCopied(t *testing.T) {
	source, target := newStore(), newStore()
	target.roomy = true // a copy that is refused would be repeated for ever
	// Two taps of one Placement copy to the same cells.
	var taps []*Tap
	for range 2 {
		taps = append(taps, running(t, tapOf(t, TapConfig{RetryAfter: 10 * time.Millisecond, CompareReads: 100000, CompareSettled: testwait.Limit}, source, target)))
	}
	turn := 0
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn++
		taps[turn%2].ServeHTTP(w, r)
	})
	// A first pass deletes little, so what is written and deleted while the cells are away would stay there.
	await(t, "both are equal", func() bool { return min(taps[0].Status().Passes, taps[1].Status().Passes) > 0 })
	w := newTraffic(t, rand.Uint64(), both)
	for i := range 400 {
		if i == 100 || i == 200 {
			target.mu.Lock()
			target.down = map[bool]error{true: errors.New("the cell is away")}[i == 100]
			target.mu.Unlock()
		}
		w.step()
	}
	await(t, "all is copied", func() bool { return taps[0].Status().Pending+taps[1].Status().Pending == 0 })
	if got, want := target.contents(), source.contents(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	s := taps[0].Status()
	if s.Writes < 50 || s.Copied == 0 || s.CopyFailed == 0 || s.LastError == "" {
		t.Errorf("%+v", s)
	}
}

func TestTap_TargetAway_CallersDoNotWait(t *testing.T) {
	target := newStore()
	tap := tapOf(t, TapConfig{MaxPending: 1}, newStore(), target)
	target.down = errors.New("the cell is away")
	w := newTraffic(t, 1, tap)
	if !w.write(http.MethodPost, "/resource_providers", map[string]any{"uuid": w.uuid('a'), "name": "host"}) {
		t.Error("the write was not answered")
	}
}

// A copy that fails is logged when its reason is new, not each time it is tried.
func TestTap_CopyFailsAgain_IsLoggedOnceAReason(t *testing.T) {
	source, target := newStore(), newStore()
	m := mirrorOf(t, source, target, 1)
	fails := func(why string) {
		target.mu.Lock()
		defer target.mu.Unlock()
		target.down = fault.New(fault.CellUnavailable, "%s", why)
	}
	fails("the cell is away")
	var out lockedBuffer
	tap := running(t, NewTap(TapConfig{RetryAfter: time.Millisecond}, m, apiOf(t, source), nil, slog.New(slog.NewTextHandler(&out, nil))))
	w := newTraffic(t, 1, tap)
	logged := func(text string, want int) {
		t.Helper()
		await(t, text, func() bool { return strings.Count(out.String(), text) >= want })
		before := tap.Status().CopyFailed
		await(t, "more copies fail", func() bool { return tap.Status().CopyFailed >= before+50 })
		if got := strings.Count(out.String(), text); got != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", text, got, want, out.String())
		}
	}
	const copying, comparing = "is not copied yet", "Comparing with Placement failed"
	w.write(http.MethodPost, "/resource_providers", map[string]any{"uuid": w.uuid('a'), "name": "one"})
	logged(copying, 3) // of both kinds of names too
	w.write(http.MethodPost, "/resource_providers", map[string]any{"uuid": w.uuid('a'), "name": "two"})
	logged(copying, 4)
	logged(comparing, 1)
	fails("the cell is full")
	logged(copying, 8)
	logged(comparing, 2)
}

// lockedBuffer is a bytes.Buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A client that sends all before it reads gets the answer to a body that is too long.
func TestTap_LongBody_IsAnsweredToWhoSendsItAllFirst(t *testing.T) {
	s := httptest.NewServer(tapOf(t, TapConfig{}, newStore(), newStore()))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "PUT /traits/CUSTOM_A HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 20<<20, make([]byte, 20<<20)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// A tap reads bodies before Placement judges their callers, so they count from the beginning.
func TestTap_BodiesAreBounded(t *testing.T) {
	in := ingress.New(ingress.Limits{CallerBytes: 1000})
	tap := tapOf(t, TapConfig{Ingress: in}, newStore(), newStore())
	for size, want := range map[int]int{1000: http.StatusUnauthorized, 1001: http.StatusServiceUnavailable} {
		rec := httptest.NewRecorder()
		tap.ServeHTTP(rec, httptest.NewRequest(http.MethodPut, "/traits/CUSTOM_A", bytes.NewReader(make([]byte, size))))
		if rec.Code != want || in.Held() != 0 {
			t.Errorf("a body of %d bytes: status %d, want %d; %d bytes are held", size, rec.Code, want, in.Held())
		}
	}
}

func TestTap_Stopped_FinishesWhatIsNoted(t *testing.T) {
	source, target := newStore(), newStore()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // The passes do nothing any more.
	tap := tapOf(t, TapConfig{FinishWithin: testwait.Limit}, source, target)
	w := newTraffic(t, 1, tap)
	for range 5 {
		w.write(http.MethodPost, "/resource_providers", map[string]any{"uuid": w.uuid('a'), "name": fmt.Sprint("host", w.id)})
	}
	if err := tap.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if s := tap.Status(); s.Copied < 5 || s.Pending != 0 || target.contents() != source.contents() {
		t.Errorf("%+v", s)
	}
}

func TestTap_MoreThanFits_AllIsCompared(t *testing.T) {
	source, target := newStore(), newStore()
	tap := tapOf(t, TapConfig{MaxPending: 1}, source, target)
	w := newTraffic(t, 1, tap)
	for range 5 {
		w.write(http.MethodPost, "/resource_providers", map[string]any{"uuid": w.uuid('a'), "name": fmt.Sprint("host", w.id)})
	}
	running(t, tap)
	await(t, "a pass for what did not fit", func() bool { return target.contents() == source.contents() })
}

func TestTap_ReadThatDiffers_IsCountedAndShown(t *testing.T) {
	source, target := newStore(), newStore()
	w := newTraffic(t, 1, apiOf(t, source))
	p := w.uuid('a')
	w.write(http.MethodPost, "/resource_providers", map[string]any{"uuid": p, "name": "host"})
	tap := running(t, tapOf(t, TapConfig{}, source, target))
	await(t, "the first pass", func() bool { return tap.Status().Passes > 0 })
	w.handler = tap
	w.call(http.MethodGet, "/resource_providers/"+p+"/traits", nil)
	await(t, "the read is compared", func() bool { return tap.Status().ReadsCompared == 1 })
	if s := tap.Status(); len(s.ReadsDiffer) > 0 {
		t.Errorf("%+v", s)
	}
	target.mu.Lock()
	changed := target.providers[p]
	changed.Traits = []string{"HW_CPU_X86_VMX"}
	target.providers[p] = changed
	target.mu.Unlock()
	w.call(http.MethodGet, "/resource_providers/"+p+"/traits", nil)
	await(t, "the read is compared", func() bool { return tap.Status().ReadsCompared == 2 })
	s := tap.Status()
	if s.ReadsDiffer["/resource_providers/{}/traits"] != 1 || !strings.Contains(s.LastDiffering.Target, "VMX") {
		t.Errorf("%+v", s)
	}
}

func TestProxy_CellsPath_IsForwardedWithoutIt(t *testing.T) {
	var asked []string
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		w.WriteHeader(http.StatusNoContent)
	}))
	defer up.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	proxy, err := Proxy(up.URL+"/placement", transport, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/traits?name=startswith:X", "/cells/cell1/resource_providers", "/cells/cell1"} {
		w := httptest.NewRecorder()
		proxy.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != http.StatusNoContent {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	want := []string{"/placement/traits?name=startswith:X", "/placement/resource_providers", "/placement/"}
	if !slices.Equal(asked, want) {
		t.Errorf("%q, want %q", asked, want)
	}
	up.Close()
	w := httptest.NewRecorder()
	proxy.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("Placement is away: %d", w.Code)
	}
}

func TestWrittenBy_EachPath_NamesWhatItWrote(t *testing.T) {
	const a, b = "a0000000-0000-4000-8000-000000000001", "b0000000-0000-4000-8000-000000000002"
	for _, c := range []struct {
		method, path, body, location string
		want                         []object
	}{
		{"POST", "/resource_providers", `{"name": "x"}`, "http://p/resource_providers/" + a, []object{{kind: providerObject, id: a, cell: "c"}}},
		{"POST", "/resource_providers", `{"uuid": "` + strings.ToUpper(a) + `"}`, "", []object{{kind: providerObject, id: a, cell: "c"}}},
		{"DELETE", "/resource_providers/" + a + "/inventories/VCPU", "", "", []object{{kind: providerObject, id: a, cell: "c"}}},
		{"PUT", "/allocations/" + a, "{}", "", []object{{kind: consumerObject, id: a}}},
		{"POST", "/allocations", `{"` + a + `": {}, "` + b + `": {}}`, "", []object{{kind: consumerObject, id: a}, {kind: consumerObject, id: b}}},
		{"POST", "/reshaper", `{"inventories": {"` + a + `": {}}, "allocations": {"` + b + `": {}}}`, "", []object{{kind: consumerObject, id: b}, {kind: providerObject, id: a, cell: "c"}}},
		{"PUT", "/traits/CUSTOM_A", "", "", []object{{kind: namesObject, names: placement.TraitName}}},
		{"POST", "/resource_classes", `{"name": "CUSTOM_A"}`, "", []object{{kind: namesObject, names: placement.ClassName}}},
		{"POST", "/", "", "", nil},
	} {
		got := writtenBy(c.method, c.path, []byte(c.body), c.location, "c")
		slices.SortFunc(got, func(a, b object) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id)) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %+v, want %+v", c.method, c.path, got, c.want)
		}
	}
}

// local is the transport to a handler of this process, as from the loopback address.
type local struct{ http.Handler }

// RoundTrip has the handler answer.
func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RemoteAddr = "127.0.0.1:0"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	in.RequestURI = in.URL.RequestURI()
	w := httptest.NewRecorder()
	l.ServeHTTP(w, in)
	_ = in.Body.Close() // the handler has read what it needs
	answer := w.Result()
	answer.Request = r
	return answer, nil
}
