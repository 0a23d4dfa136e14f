package bench

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Stages is where the CPU time of a profile went.
type Stages struct {
	// Seconds that were profiled, and CPU seconds used in them.
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds"`
	// Stages, the largest first; their shares add up to 1.
	Stages []Stage `json:"stages"`
	// Heavy are the functions that used most themselves.
	Heavy []Function `json:"heavy"`
}

// Stage is a part of the work.
type Stage struct {
	Name  string  `json:"name"`
	CPU   float64 `json:"cpu_seconds"`
	Share float64 `json:"share"`
	// Allocating is the part of CPU spent on allocating memory.
	Allocating float64 `json:"allocating_seconds"`
}

// Function is a function's own CPU time.
type Function struct {
	Name  string  `json:"name"`
	CPU   float64 `json:"cpu_seconds"`
	Share float64 `json:"share"`
}

// heaviest is how many functions are listed.
const heaviest = 15

// row says that functions with a prefix are of a stage.
type row struct{ prefix, stage string }

// anywhere: a stack with such a function, wherever in it, is of that stage.
var anywhere = []row{
	{"runtime.gcBgMarkWorker", "GC"},
	{"runtime.gcAssistAlloc", "GC"},
	{"runtime.bgsweep", "GC"},
	{"runtime.bgscavenge", "GC"},
	{"runtime.gcStart", "GC"},
	{"runtime/pprof.", "profiling"},
	{"cellgate/internal/rpc.Validate", "validate (schema rules)"},
}

// nearest: otherwise the innermost function that a row names decides; the first
// row that fits does.
var nearest = []row{
	{"google.golang.org/protobuf/", "protobuf"},
	{"google.golang.org/grpc.", "grpc/http2"},
	{"google.golang.org/grpc/", "grpc/http2"},
	{"golang.org/x/net/http2", "grpc/http2"},
	{"github.com/grpc-ecosystem/grpc-gateway", "REST"},
	{"net/http.", "REST"},
	{"cellgate/internal/telemetry.", "telemetry"},
	{"go.opentelemetry.io/", "telemetry"},
	{"github.com/prometheus/", "telemetry"},
	{"log/slog.", "log"},

	{"cellgate/schedule.(*Plan)", "gateway merge"},
	{"cellgate/schedule.NewPlan", "gateway merge"},
	{"cellgate/schedule.(*Table).Propose", "cell propose"},
	{"cellgate/schedule.(*Edit)", "cell table"},
	{"cellgate/schedule/nova.", "gateway translate"},

	{"cellgate/gateway.(*Gateway).admit", "gateway admit"},
	{"cellgate/gateway.(*Gateway).newSelecting", "gateway translate"},
	{"cellgate/gateway.(*Gateway).route", "gateway route"},
	{"cellgate/gateway.cannotHold", "gateway route"},
	{"cellgate/gateway.(*proposer)", "gateway propose"},
	{"cellgate/gateway.(*selection).round", "gateway propose"},
	{"cellgate/gateway.queryOf", "gateway propose"},
	{"cellgate/gateway.knowledgeOf", "gateway propose"},
	{"cellgate/gateway.placementOf", "gateway propose"},
	{"cellgate/gateway.proposalFrom", "gateway propose"},
	{"cellgate/gateway.shapeOf", "gateway merge"},
	{"cellgate/gateway.(*hints)", "gateway merge"},
	{"cellgate/gateway.(*selection).merge", "gateway merge"},
	{"cellgate/gateway.(*selection).orders", "gateway claim"},
	{"cellgate/gateway.(*selection).claim", "gateway claim"},
	{"cellgate/gateway.(*selection).send", "gateway claim"},
	{"cellgate/gateway.(*cell).operate", "gateway claim"},
	{"cellgate/gateway.(*selection).respond", "gateway answer"},
	{"cellgate/gateway.(*selection).destinationsOf", "gateway answer"},
	{"cellgate/gateway.(*selection).selectionOf", "gateway answer"},
	{"cellgate/gateway.(*selection).cellReports", "gateway answer"},
	{"cellgate/gateway.", "gateway, other"},

	{"cellgate/cell.(*scheduler).ProposeBatch", "cell propose"},
	{"cellgate/cell.(*Cell).propose", "cell propose"},
	{"cellgate/cell.proposalOf", "cell propose"},
	{"cellgate/cell.(*writer)", "cell table"},
	{"cellgate/cell.(*rows)", "cell table"},
	{"cellgate/cell.(*versions)", "cell table"},
	{"cellgate/cell.(*pipeline)", "cell claim pipeline"},
	{"cellgate/cell.(*queue)", "cell claim pipeline"},
	{"cellgate/cell.(*scheduler).ClaimBatch", "cell claim pipeline"},
	{"cellgate/cell.(*Cell).outcomeOf", "cell claim pipeline"},
	{"cellgate/cell.opOf", "cell claim pipeline"},
	{"cellgate/cell.", "cell, other"},
	{"cellgate/shard/pebbleshard.", "shard (Pebble)"},
	{"github.com/cockroachdb/pebble", "shard (Pebble)"},
	{"cellgate/shard.", "cell decide"},
	{"cellgate/agent.", "agents"},

	{"runtime.mcall", "goroutine scheduling"},
	{"runtime.mstart", "goroutine scheduling"},
	{"runtime.goexit0", "goroutine scheduling"},
	{"runtime.sysmon", "goroutine scheduling"},
}

// StagesOf reads a CPU profile, gzipped as net/http/pprof gives it, and
// attributes its time.
func StagesOf(gzipped []byte) (*Stages, error) {
	samples, over, err := readProfile(gzipped)
	if err != nil {
		return nil, err
	}
	var total time.Duration
	stages, functions := map[string]*Stage{}, map[string]time.Duration{}
	for _, s := range samples {
		total += s.cpu
		name := stageOf(s.stack)
		at := stages[name]
		if at == nil {
			at = &Stage{Name: name}
			stages[name] = at
		}
		at.CPU += s.cpu.Seconds()
		if name != "GC" && slices.ContainsFunc(s.stack, allocates) {
			at.Allocating += s.cpu.Seconds()
		}
		if len(s.stack) > 0 {
			functions[s.stack[0]] += s.cpu
		}
	}
	out := &Stages{Seconds: over.Seconds(), CPU: total.Seconds(), Stages: []Stage{}}
	for _, s := range stages {
		s.Share = s.CPU / max(out.CPU, 1e-9)
		out.Stages = append(out.Stages, *s)
	}
	slices.SortFunc(out.Stages, func(a, b Stage) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(a.Name, b.Name))
	})
	for name, d := range functions {
		out.Heavy = append(out.Heavy, Function{Name: name, CPU: d.Seconds(), Share: d.Seconds() / max(out.CPU, 1e-9)})
	}
	slices.SortFunc(out.Heavy, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(a.Name, b.Name))
	})
	out.Heavy = out.Heavy[:min(len(out.Heavy), heaviest)]
	return out, nil
}

// stageOf gives the stage of a stack, the innermost function first.
func stageOf(stack []string) string {
	for _, f := range stack {
		if s := lookup(anywhere, f); s != "" {
			return s
		}
	}
	for _, f := range stack {
		if s := lookup(nearest, f); s != "" {
			return s
		}
	}
	return "other"
}

func lookup(rows []row, function string) string {
	for _, r := range rows {
		if strings.HasPrefix(function, r.prefix) {
			return r.stage
		}
	}
	return ""
}

func allocates(function string) bool {
	return strings.HasPrefix(function, "runtime.mallocgc") || strings.HasPrefix(function, "runtime.newobject") ||
		strings.HasPrefix(function, "runtime.growslice") || strings.HasPrefix(function, "runtime.makeslice")
}
