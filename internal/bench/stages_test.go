package bench

import (
	"bytes"
	"compress/gzip"
	"errors"
	"runtime/pprof"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// encode writes a CPU profile with one function a location, the innermost first.
func encode(t *testing.T, unit string, stacks map[string][]string) []byte {
	t.Helper()
	texts := []string{""}
	index := map[string]uint64{"": 0}
	text := func(s string) uint64 {
		if _, ok := index[s]; !ok {
			index[s] = uint64(len(texts))
			texts = append(texts, s)
		}
		return index[s]
	}
	message := func(number protowire.Number, into, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(into, number, protowire.BytesType), content)
	}
	varint := func(into []byte, number protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(into, number, protowire.VarintType), v)
	}
	var raw []byte
	for _, name := range []string{"samples", unit} {
		raw = message(1, raw, varint(nil, 1, text(name)))
	}
	for _, stack := range stacks {
		var ids []byte
		for _, f := range stack {
			id := text(f)
			ids = protowire.AppendVarint(ids, id)
			raw = message(5, raw, varint(varint(nil, 1, id), 2, id))
			raw = message(4, raw, message(4, varint(nil, 1, id), varint(nil, 1, id)))
		}
		raw = message(2, raw, message(2, message(1, nil, ids), protowire.AppendVarint(protowire.AppendVarint(nil, 1), 10_000_000)))
	}
	for _, s := range texts {
		raw = message(6, raw, []byte(s))
	}
	raw = varint(raw, 10, 2_000_000_000)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestStagesAttributeStacks(t *testing.T) {
	const handler = "google.golang.org/grpc.(*Server).processRPC"
	stacks := map[string][]string{
		"gateway merge":           {"runtime.memmove", "cellgate/schedule.(*answer).below", "cellgate/schedule.(*Plan).Next", "cellgate/gateway.(*selecting).mergeOnce", handler},
		"cell propose":            {"cellgate/schedule.(*scan).estimate", "cellgate/schedule.(*Table).Propose", "cellgate/cell.(*Cell).propose", handler},
		"protobuf":                {"runtime.mallocgcSmall", "runtime.mallocgc", "google.golang.org/protobuf/proto.Marshal", "cellgate/gateway.(*selecting).orders", handler},
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
