package bench

import (
	"bytes"
	"errors"
	"runtime/pprof"
	"testing"

	"github.com/google/pprof/profile"
)

// encode writes a CPU profile with one function a location, the innermost first.
func encode(t *testing.T, unit string, stacks map[string][]string) []byte {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: unit, Unit: "nanoseconds"}}, DurationNanos: 2_000_000_000}
	locations := map[string]*profile.Location{}
	for _, stack := range stacks {
		s := &profile.Sample{Value: []int64{1, 10_000_000}}
		for _, name := range stack {
			l := locations[name]
			if l == nil {
				id := uint64(len(locations) + 1)
				f := &profile.Function{ID: id, Name: name}
				l = &profile.Location{ID: id, Line: []profile.Line{{Function: f}}}
				locations[name], p.Function, p.Location = l, append(p.Function, f), append(p.Location, l)
			}
			s.Location = append(s.Location, l)
		}
		p.Sample = append(p.Sample, s)
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil { // gzipped
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestStagesAttributeStacks(t *testing.T) {
	const handler = "google.golang.org/grpc.(*Server).processRPC"
	stacks := map[string][]string{
		"gateway merge":           {"runtime.memmove", "cellgate/schedule.(*answer).below", "cellgate/schedule.(*Plan).Next", "cellgate/gateway.(*selection).mergeOnce", handler},
		"cell propose":            {"cellgate/schedule.(*scan).estimate", "cellgate/schedule.(*Table).Propose", "cellgate/cell.(*Cell).propose", handler},
		"protobuf":                {"runtime.mallocgcSmall", "runtime.mallocgc", "google.golang.org/protobuf/proto.Marshal", "cellgate/gateway.(*selection).orders", handler},
		"grpc/http2":              {"syscall.write", "net.(*conn).Write", "google.golang.org/grpc/internal/transport.(*loopyWriter).run"},
		"validate (schema rules)": {"google.golang.org/protobuf/internal/impl.x", "buf.build/go/protovalidate.y", "cellgate/internal/rpc.Validate", handler},
		"GC":                      {"runtime.scanobject", "runtime.gcAssistAlloc", "runtime.mallocgc", "cellgate/gateway.x", handler},
		"shard (Pebble)":          {"syscall.fdatasync", "github.com/cockroachdb/pebble/v2/record.z"},
		"cell decide":             {"cellgate/shard.Decide", "cellgate/shard/pebbleshard.(*lane).decide"},
		"goroutine scheduling":    {"runtime.findRunnable", "runtime.schedule", "runtime.mcall"},
		"telemetry":               {"runtime.nanotime", "github.com/prometheus/client_golang/prometheus.(*histogram).Observe", "cellgate/gateway.(*Gateway).selectDestinations", "cellgate/internal/telemetry.(*door).unary", handler},
		"other":                   {"main.main"},
	}
	got, err := StagesOf(encode(t, "cpu", stacks))
	if err != nil {
		t.Fatal(err)
	}
	if got.Seconds != 2 || got.CPU < 0.109 || got.CPU > 0.111 || len(got.Stages) != len(stacks) {
		t.Fatalf("stages = %+v, want %d of 0.1 s in 2 s", got, len(stacks))
	}
	for _, s := range got.Stages {
		if stacks[s.Name] == nil || s.Share < 0.0905 || s.Share > 0.0913 {
			t.Errorf("stage %+v, want an equal part each", s)
		}
		if (s.Allocating > 0) != (s.Name == "protobuf") {
			t.Errorf("%s: allocating %v; only the one of protobuf allocates, and GC is its own stage", s.Name, s.Allocating)
		}
	}
	if len(got.Heavy) != 11 || got.Heavy[0].CPU < 0.0099 {
		t.Errorf("heavy = %+v", got.Heavy)
	}
}

func TestWhatIsNoCPUProfileIsRefused(t *testing.T) {
	var goroutines bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&goroutines, 0); err != nil {
		t.Fatal(err)
	}
	whole := encode(t, "cpu", map[string][]string{"x": {"a"}})
	for name, text := range map[string][]byte{
		"text": []byte("hello"), "another profile": goroutines.Bytes(), "cut": whole[:len(whole)/2], "another unit": encode(t, "wall", nil),
	} {
		if _, err := StagesOf(text); !errors.Is(err, errProfile) {
			t.Errorf("%s: %v, want %v", name, err, errProfile)
		}
	}
}
