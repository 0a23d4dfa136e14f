package bus

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// arguments are the arguments of select_destinations, of any version.
type arguments struct {
	spec      map[string]any
	instances []string
	// objects asks for Selection objects, alternates for alternates.
	objects, alternates bool
	// rebuild: by the hints, only an instance's own host is checked.
	rebuild bool
	// dryRun: the caller names no instances, so nothing is claimed.
	dryRun bool
}

// maxAlternates is the gateway's bound.
const maxAlternates = 32

// readArguments decodes the arguments of select_destinations as nova-scheduler does: a
// RequestSpec (4.3 and later), or the older dictionaries.
func readArguments(r *request) (*arguments, *failure) {
	const name = "select_destinations"
	if f := takes(name, r, []string{"request_spec", "filter_properties", "spec_obj", "instance_uuids", "return_objects", "return_alternates"}, nil); f != nil {
		return nil, f
	}
	size := 0
	for _, raw := range r.Args {
		size += len(raw)
	}
	if size > rpc.MaxMessageBytes {
		return nil, noValidHost(fmt.Sprintf("The request cannot be honoured: its arguments have %d bytes; the most is %d", size, rpc.MaxMessageBytes))
	}
	a := &arguments{}
	for arg, to := range map[string]any{"instance_uuids": &a.instances, "return_objects": &a.objects, "return_alternates": &a.alternates} {
		if raw, ok := r.Args[arg]; ok && json.Unmarshal(raw, to) != nil {
			return nil, badArguments(name, "got a value of a wrong type for '%s'", arg)
		}
	}
	var err error
	if raw, ok := r.Args["spec_obj"]; ok {
		a.spec, err = structOf(raw)
	} else {
		a.spec, err = legacySpec(r.Args["request_spec"], r.Args["filter_properties"])
	}
	if err != nil {
		return nil, noValidHost("The request cannot be honoured: the request spec " + err.Error())
	}
	a.spec, _ = canonical(a.spec).(map[string]any)
	data, _ := a.spec["nova_object.data"].(map[string]any)
	hints, _ := data["scheduler_hints"].(map[string]any)
	check, _ := hints["_nova_check_type"].([]any)
	a.rebuild = len(check) == 1 && check[0] == "rebuild"
	if len(a.instances) == 0 {
		// Callers older than 4.4 name no instances: they claim nothing.
		a.dryRun = true
		n, _ := data["num_instances"].(float64)
		for range min(max(int(n), 1), 1000) {
			a.instances = append(a.instances, uuid.NewString())
		}
	}
	return a, nil
}

// request makes the gateway's request. Its id is made of the caller's API request and of everything that is
// asked. So the same message delivered again has the same id, and another attempt of the same API request
// has another.
func (a *arguments) request(apiRequest string, most int, ttl *durationpb.Duration, operation cellgatev1.Operation) (*cellgatev1.SelectDestinationsRequest, error) {
	spec, err := structpb.NewStruct(a.spec)
	if err != nil {
		return nil, err
	}
	req := &cellgatev1.SelectDestinationsRequest{
		InstanceUuids: a.instances, Spec: &cellgatev1.SelectDestinationsRequest_NovaRequestSpec{NovaRequestSpec: spec},
		ClaimTtl: ttl, Operation: operation, DryRun: a.dryRun,
	}
	if a.alternates && a.objects && most > 0 {
		req.ReturnAlternates, req.MaxAlternates = true, int32(min(most, maxAlternates))
	}
	text, err := json.Marshal([]any{a.instances, a.spec, req.GetMaxAlternates(), ttl.GetSeconds(), int32(operation)})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	req.RequestId = requestPrefix(apiRequest) + hex.EncodeToString(sum[:16])
	return req, nil
}

// ignore adds a host to the request's ignored hosts.
func (a *arguments) ignore(host string) {
	if data, ok := a.spec["nova_object.data"].(map[string]any); ok {
		ignored, _ := data["ignore_hosts"].([]any)
		data["ignore_hosts"] = append(ignored, host)
	}
}

// owner gives the project and the user of the instances, from the request spec.
func (a *arguments) owner() owner {
	data, _ := a.spec["nova_object.data"].(map[string]any)
	project, _ := data["project_id"].(string)
	user, _ := data["user_id"].(string)
	return owner{project, user}
}

// requestPrefix begins the ids of all requests of one API request.
func requestPrefix(apiRequest string) string {
	if apiRequest == "" {
		apiRequest = "none"
	}
	return fmt.Sprintf("nova/%.128s/", apiRequest)
}

// sets are the lists in Nova's objects whose order has no meaning. Another process may order
// them differently, but the same request must give the same bytes.
var sets = map[string][]string{
	"InstanceGroup": {"members", "hosts"},
	"RequestSpec":   {"ignore_hosts"},
}

// canonical brings an object into a form that does not depend on its sender: it sorts sets,
// and removes nova_object.changes.
func canonical(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = canonical(v[i])
		}
	case map[string]any:
		delete(v, "nova_object.changes")
		for name := range v {
			v[name] = canonical(v[name])
		}
		name, _ := v["nova_object.name"].(string)
		data, _ := v["nova_object.data"].(map[string]any)
		for _, set := range sets[name] {
			if list, ok := data[set].([]any); ok {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
	}
	return value
}
