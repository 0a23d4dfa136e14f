package telemetry

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/grpc"

	"cellgate/internal/fault"
)

func newProcess(t *testing.T, traces Traces) *Process {
	t.Helper()
	p, err := New(traces, Build{"v1", "abc"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// families returns our metrics, by name.
func families(t *testing.T, p *Process) map[string]int {
	t.Helper()
	all, err := p.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, f := range all {
		if strings.HasPrefix(f.GetName(), "cellgate_") {
			out[f.GetName()] = len(f.GetMetric())
		}
	}
	return out
}

// useAll calls every method of every handle, with odd values too.
func useAll(p *Process) {
	g := p.Gateway()
	for _, s := range Stages() {
		_, step := g.Stage(context.Background(), s)
		step.Without(time.Microsecond)
		step.End(nil)
	}
	g.Unread("/cellgate.v1.Claims/GetClaim", "INVALID_REQUEST")
	g.Unread("", "MADE_UP")
	p.CallerRefused("TLS handshake", "UNAUTHENTICATED")
	p.CallerRefused("/", "MADE_UP")
	p.WatchIngress(func() int64 { return 5 })
	p.IngressRefused("bytes")
	p.IngressRefused("made up")
	p.WatchCertificates(func(each func(Certificate, time.Time)) {
		each(CertificateServer, time.Unix(9, 0))
		each("made up", time.Unix(1, 0))
	})
	g.Merged(1, 1)
	g.Merged(3, 5)
	g.Rejected("ResourceFilter", 3)
	g.Rejected("Made/up filter", 3)
	g.Unreadable("RAMWeigher", 1)
	g.Unreadable("made up", 1)
	g.RaceLost()
	g.Raced(1, 1)
	g.Spread()
	g.Restarted()
	g.Answered(2, InexactSpread, true)
	g.Sent(3)
	g.Decided(true)
	g.Decided(false)
	g.Watch(func(each func(Queue, int, int, uint64)) { each(QueueClaims, 32, 1, 9) }, func(each func(string, time.Duration)) { each("cell1", time.Second) })
	g.WatchLegacy(func(each func(LegacyReading)) { each(LegacyReading{Cell: "cell1", Age: time.Second}) })
	l := g.Link("cell1")
	gate := l.Gate()
	for _, state := range append(GateStates(), "made up") {
		gate.Is(state)
		gate.Moved(state)
	}
	gate.Read(time.Second, nil)
	l.Called(context.Background(), nil, time.Millisecond, fault.New("MADE_UP", "x"))
	l.Searched("SEARCHED")
	l.Searched("what")
	l.Doubted(2)
	b := l.Breaker("127.0.0.1:1")
	for s := gobreaker.StateClosed; s <= gobreaker.StateOpen+1; s++ {
		b.Moved(s)
	}
	c := p.Cell("cell1", "r1")
	c.Proposed(time.Millisecond)
	c.Cold(true, nil)
	c.NearMissesSpared()
	c.Transaction(2, time.Millisecond, nil)
	for _, op := range Ops() {
		c.Operation(op, "")
		c.Operation(op, "MADE_UP")
	}
	c.Operation("made up", "")
	c.QueueWaited(true, time.Millisecond)
	c.QueueRefused(false)
	c.LeaseExpired()
	c.Verdict("sync", true, "NO_ROOM")
	c.Verdict("made up", true, "MADE_UP")
	c.VerdictWaited(time.Millisecond, true)
	c.OfferUnanswered()
	c.Repaired("orphaned_claim", "done")
	c.HostPut(1, 2, 3)
	c.GateMoved("LEGACY")
	c.Stream()()
	c.State(nil)
	c.WatchStore(func() StoreReading { return StoreReading{Reruns: 1} })
	c.Watch(func() (CellReading, bool) {
		return CellReading{Gate: "shadow", Hosts: 1, Packing: PackingReading{Density: map[string]float64{"VCPU": 1}, Shapes: []ShapeReading{{Shape: "VCPU=1", Fits: 1, Pooled: 2}}}}, true
	})
	bus := p.Bus([]string{"ping"})
	bus.Answered("ping", "ok", time.Millisecond)
	bus.Answered("made up", "MadeUp", time.Millisecond)
	bus.Dropped("malformed")
	bus.Dropped("made up")
	bus.Redelivered()
	bus.Reconnected()
	bus.Watch(func() bool { return true })
	api := p.Placement([]string{"GET /usages"})
	api.Answered("GET /usages", 200, time.Millisecond, []string{"cell1"})
	api.Answered("made up", 999, time.Millisecond, nil)
	a := p.Agent("cell1")
	a.Reported("")
	a.Reported("MADE_UP")
	a.Reconnected()
	a.Watch(func() int { return 9 })
	a.WatchRead(func() time.Duration { return time.Second })
	a.ReadFailed()
	if p != nil {
		done := func(context.Context, any) (any, error) { return nil, nil }
		_, _ = p.Gateway().requests.unary(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/cellgate.v1.Scheduler/SelectDestinations"}, done)
		_, _ = p.Cell("cell1", "r1").requests.unary(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/cellgate.cell.v1.CellScheduler/ClaimBatch"}, done)
	}
}

func TestEveryNameIsEmittedAndEveryEmittedOneIsNamed(t *testing.T) {
	p := newProcess(t, Traces{})
	useAll(p)
	got := families(t, p)
	for _, m := range Metrics() {
		if got[m.Name] == 0 {
			t.Errorf("%s is never emitted", m.Name)
		}
		delete(got, m.Name)
	}
	for name := range got {
		t.Errorf("%s is emitted but not named", name)
	}
}

func TestZeroHandlesTakeEverything(t *testing.T) {
	useAll(nil)
	var p *Process
	if p.Gateway().ServerOptions() != nil || p.Cell("a", "b").ServerOptions() != nil || p.Gateway().Handler() != nil {
		t.Error("a zero handle gives something")
	}
	if _, s := p.Cell("a", "b").Propose(t.Context(), sampled); s.On() {
		t.Error("a zero handle records")
	}
}

var nameForm = regexp.MustCompile(`^cellgate_(gateway|cell|agent|build|trace|callers|certificate|ingress)_[a-z_]+$`)

func TestNamesAreWellFormedAndLabelsBounded(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Metrics() {
		if !nameForm.MatchString(m.Name) || seen[m.Name] || m.Help == "" || m.Of == "" {
			t.Errorf("%+v: name, help and process must be there, once", m)
		}
		seen[m.Name] = true
		if strings.HasSuffix(m.Name, "_total") != (m.Kind == Counter || m.Kind == Tally) || strings.HasSuffix(strings.TrimSuffix(m.Name, "_total"), "_seconds") != (m.Unit == "seconds") {
			t.Errorf("%s: counters end in _total, seconds in _seconds, before that", m.Name)
		}
		if (m.Buckets != nil) != (m.Kind == Histogram) || !slices.IsSorted(m.Buckets) {
			t.Errorf("%s: buckets %v", m.Name, m.Buckets)
		}
		if own := map[bool]int{true: 2}[m.Of == inCell]; len(m.Labels)-own > maxLabels {
			t.Errorf("%s has more than %d labels besides its part's", m.Name, maxLabels)
		}
		for _, l := range m.Labels {
			if (l.Values == nil) == (l.From == "") {
				t.Errorf("%s: label %s needs a list, or what bounds it", m.Name, l.Name)
			}
		}
	}
}

func TestLabelValuesOutsideTheirListAreOther(t *testing.T) {
	p := newProcess(t, Traces{})
	useAll(p)
	all, err := p.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]map[string][]string{}
	for _, m := range Metrics() {
		allowed[m.Name] = map[string][]string{}
		for _, l := range m.Labels {
			allowed[m.Name][l.Name] = l.Values
		}
	}
	others := 0
	for _, f := range all {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				list, ours := allowed[f.GetName()][l.GetName()]
				if ours && list != nil && !slices.Contains(list, l.GetValue()) {
					t.Errorf("%s: %s=%q is not in its list", f.GetName(), l.GetName(), l.GetValue())
				}
				if l.GetValue() == other {
					others++
				}
			}
		}
	}
	if others < 5 {
		t.Errorf("%d series are of other; the made-up values must be", others)
	}
}

// Every metric is listed, and the parts call every method of a handle: a method without a caller is
// a metric that never changes.
func TestEveryMethodOfAHandleIsUsedByTheParts(t *testing.T) {
	code := ""
	for _, folder := range []string{"gateway", "cell", "agent", "cmd/cellgate"} {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			code += string(text)
			return err
		})
		if err != nil || code == "" {
			t.Fatal(folder, err)
		}
	}
	for _, handle := range []any{&Gateway{}, &Link{}, &Breaker{}, &Cell{}, &Agent{}, &Step{}} {
		h := reflect.TypeOf(handle)
		for i := range h.NumMethod() {
			name := h.Method(i).Name
			if !strings.Contains(code, "."+name+"(") {
				t.Errorf("%v.%s is called by no part", h, name)
			}
		}
	}
	for _, s := range spanVariables(t) {
		if s != "SpanRequest" && s != "SpanServe" && !strings.Contains(code, "telemetry."+s+")") && !strings.Contains(stageSpans(), s) && !strings.Contains(ownSpans(t), s+".Name") {
			t.Errorf("%s is started by no part", s)
		}
	}
}

// stageSpans returns the span names that Gateway.Stage gives.
func stageSpans() string {
	names := map[string]string{
		"gateway.admit": "SpanAdmit", "gateway.translate": "SpanTranslate", "gateway.route": "SpanRoute", "gateway.merge": "SpanMerge",
		"gateway.propose": "SpanRound", "gateway.pin": "SpanPin", "gateway.claim": "SpanClaim", "gateway.answer": "SpanAnswer",
	}
	var all []string
	for _, s := range Stages() {
		all = append(all, names["gateway."+string(s)])
	}
	return strings.Join(all, " ")
}

func ownSpans(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("cell.go")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// spanVariables are the variables of spans, all of which Spans must list.
func spanVariables(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "names_trace.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Span") {
			all = append(all, v.Names[0].Name)
		}
		return true
	})
	if len(all) != len(Spans()) {
		t.Errorf("%d spans are declared, Spans lists %d", len(all), len(Spans()))
	}
	return all
}

// A Prometheus or OpenTelemetry name outside of this package would escape the
// list.
func TestOnlyThisPackageKnowsPrometheusAndOpenTelemetry(t *testing.T) {
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if filepath.Base(filepath.Dir(path)) == "telemetry" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			for _, foreign := range []string{"go.opentelemetry.io/", "github.com/prometheus/client"} {
				if strings.HasPrefix(strings.Trim(i.Path.Value, `"`), foreign) {
					t.Errorf("%s imports %s: use a handle of internal/telemetry", path, i.Path.Value)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Several servers and clients of a process share one series. Refusals are summed up, and the
// earliest expiry counts.
func TestRefusalsAreAddedUpAndTheFirstEndCounts(t *testing.T) {
	p := newProcess(t, Traces{})
	for i := range 2 {
		p.CallerRefused("TLS handshake", "UNAUTHENTICATED")
		p.WatchIngress(func() int64 { return 5 })
		p.IngressRefused("bytes")
		p.WatchCertificates(func(each func(Certificate, time.Time)) { each(CertificateClient, time.Unix(int64(100-i), 0)) })
	}
	all, err := p.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			got[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	if got[callersRefused.Name] != 2 || got[certificateEnd.Name] != 99 || got[ingressBytes.Name] != 10 || got[ingressRefused.Name] != 2 {
		t.Errorf("%v refused, ends at %v, %v bytes, %v refused by limits", got[callersRefused.Name], got[certificateEnd.Name], got[ingressBytes.Name], got[ingressRefused.Name])
	}
}

// A label name has one meaning: replica is a name, which gateways do not know.
func TestAReplicaIsNamedAlikeEverywhere(t *testing.T) {
	for _, m := range Metrics() {
		for _, l := range m.Labels {
			if l.Name == "replica" && m.Of != inCell {
				t.Errorf("%s of a %s has the label replica: gateways know addresses", m.Name, m.Of)
			}
		}
	}
}

func TestStoreEventsAreCountersOfWhatTheyAreCalled(t *testing.T) {
	p := newProcess(t, Traces{})
	p.Cell("cell1", "r1").WatchStore(func() StoreReading {
		return StoreReading{Reruns: 1, Relocked: 2, ConnectionsLost: 3, CommitsUnknown: 4, CommitsResolved: 5, StatementTimeouts: 6, PoolEmpty: 7, NoConnectionLeft: 8, Refused: 9}
	})
	all, err := p.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == cellStoreEvents.Name && l.GetName() == "event" {
					got[l.GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
	}
	want := map[string]float64{"rerun": 1, "relocked": 2, "connection_lost": 3, "commit_unknown": 4, "commit_resolved": 5, "statement_timeout": 6, "pool_empty": 7, "no_connection_left": 8, "refused": 9}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
