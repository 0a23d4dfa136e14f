package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"cellgate/internal/fault"
)

// endpoint is a set of methods of one version, as oslo.messaging dispatches them.
type endpoint struct {
	namespace, version string
	methods            map[string]method
}

// method answers a request. An error means that there is no answer: the message goes back to
// the queue.
type method func(context.Context, *request) (result any, failed *failure, err error)

// endpoints gives nova-scheduler's endpoints: its own one, and the base one of every Nova service.
func (b *Bus) endpoints() []endpoint {
	return []endpoint{
		{version: "4.5", methods: map[string]method{
			"select_destinations":  b.selectDestinations,
			"update_aggregates":    b.cast("update_aggregates", "aggregates"),
			"delete_aggregate":     b.cast("delete_aggregate", "aggregate"),
			"update_instance_info": b.cast("update_instance_info", "host_name", "instance_info"),
			"delete_instance_info": b.cast("delete_instance_info", "host_name", "instance_uuid"),
			"sync_instance_info":   b.cast("sync_instance_info", "host_name", "instance_uuids"),
		}},
		{namespace: "baseapi", version: "1.1", methods: map[string]method{
			"ping":              ping,
			"get_backdoor_port": func(context.Context, *request) (any, *failure, error) { return nil, nil, nil },
		}},
	}
}

// casts are the methods that computes and the API cast to all schedulers.
var casts = []string{"update_aggregates", "delete_aggregate", "update_instance_info", "delete_instance_info", "sync_instance_info"}

// Methods lists the served methods.
func Methods() []string {
	return append([]string{"select_destinations", "ping", "get_backdoor_port"}, casts...)
}

// dispatch finds the method of a request as oslo.messaging does. If the method panics, the
// caller gets an exception: otherwise the message would crash one gateway after the other.
func (b *Bus) dispatch(ctx context.Context, r *request) (result any, failed *failure, err error) {
	defer func() {
		if p := recover(); p != nil {
			b.log.Error("a method of the message bus panicked", "method", r.Method, "panic", p, "stack", string(debug.Stack()))
			result, failed, err = nil, newFailure(moduleCellgate, string(fault.Internal), "the request failed by a defect; the gateway's log has the stack trace"), nil
		}
	}()
	served := false
	for _, e := range b.endpoints() {
		if r.Namespace != e.namespace || !compatible(e.version, r.Version) {
			continue
		}
		if m, ok := e.methods[r.Method]; ok {
			return m(ctx, r)
		}
		served = true
	}
	if served {
		return nil, noSuchMethod(r.Method), nil
	}
	return nil, unsupportedVersion(r.Version, r.Method), nil
}

// compatible reports whether a server of one version serves a caller of another: the major
// numbers are equal, and the caller's minor number is not greater.
func compatible(served, asked string) bool {
	have, want := strings.Split(served, "."), strings.Split(asked, ".")
	if len(want) < 2 || len(want) > 3 || have[0] != want[0] {
		return false
	}
	minor, err := strconv.Atoi(have[1])
	n, nerr := strconv.Atoi(want[1])
	return err == nil && nerr == nil && n >= 0 && n <= minor
}

// cast is a method by which computes and the API report instances or aggregates to nova-scheduler.
// It only starts a read of Nova's tables, where cells take both from. Its arguments are not used,
// so a lost, late or repeated cast does no harm. The API's bus has the casts of every cell without
// a bus of its own.
func (b *Bus) cast(name string, wanted ...string) method {
	return func(_ context.Context, r *request) (any, *failure, error) {
		failed := takes(name, r, wanted, wanted)
		if failed == nil {
			b.changed("")
		}
		return nil, failed, nil
	}
}

// takes refuses arguments that a method does not accept, as Python does, and missing ones of
// needed.
func takes(name string, r *request, all, needed []string) *failure {
	for arg := range r.Args {
		if !slices.Contains(all, arg) {
			return badArguments(name, "got an unexpected keyword argument '%.64s'", arg)
		}
	}
	for _, arg := range needed {
		if raw, ok := r.Args[arg]; !ok || bytes.Equal(raw, []byte("null")) {
			return badArguments(name, "missing 1 required positional argument: '%s'", arg)
		}
	}
	return nil
}

// ping answers as every service of Nova does.
func ping(_ context.Context, r *request) (any, *failure, error) {
	if f := takes("ping", r, []string{"arg"}, nil); f != nil {
		return nil, f, nil
	}
	arg := r.Args["arg"]
	if arg == nil {
		arg = json.RawMessage("null")
	}
	return map[string]any{"service": topic, "arg": arg}, nil, nil
}
