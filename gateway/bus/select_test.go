package bus

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const claimID = "0b6a2b0e-9c5e-4b8e-8d3f-5b1f5a1c0001"

// replyOf encodes an answer as it goes over the wire, and reads it back.
func replyOf(t *testing.T, r *request, result any, failed *failure) map[string]any {
	t.Helper()
	body, err := encodeReply(r, result, failed)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := open(body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for name, raw := range fields {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		out[name] = v
	}
	return out
}

// ordered sorts the lists nova_object.changes, which are sets in Python.
func ordered(v any) any {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			ordered(e)
		}
	case map[string]any:
		for name, e := range v {
			if list, ok := e.([]any); ok && name == "nova_object.changes" {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
				continue
			}
			ordered(e)
		}
	}
	return v
}

// For the hosts that nova-scheduler chose, the reply equals nova-scheduler's, field by field.
func TestSelectDestinations_RecordedRequest_RepliesAsNova(t *testing.T) {
	all := recordings(t)
	for _, name := range []string{"boot", "boot_host", "live_migrate", "rebuild"} {
		t.Run(name, func(t *testing.T) {
			var want map[string]any
			if err := json.Unmarshal(all[name+" reply"].Message, &want); err != nil {
				t.Fatal(err)
			}
			resp := &cellgatev1.SelectDestinationsResponse{}
			for _, hosts := range want["result"].([]any) {
				d := &cellgatev1.Destinations{}
				for i, h := range hosts.([]any) {
					data := h.(map[string]any)["nova_object.data"].(map[string]any)
					text := func(name string) string { s, _ := data[name].(string); return s }
					s := &cellgatev1.Selection{
						ComputeNodeUuid: text("compute_node_uuid"), ServiceHost: text("service_host"), Nodename: text("nodename"), CellUuid: text("cell_uuid"),
						AllocationRequest: text("allocation_request"), AllocationRequestVersion: text("allocation_request_version"), AvailabilityZone: text("availability_zone"),
					}
					if i == 0 {
						d.Selected = s
					} else {
						d.Alternates = append(d.Alternates, s)
					}
				}
				resp.Destinations = append(resp.Destinations, d)
			}
			g := &gateway{answer: func(context.Context, *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
				return resp, nil
			}}
			r := all[name].request(t)
			result, failed, err := newBus(t, g, nil).dispatch(t.Context(), r)
			if failed != nil || err != nil {
				t.Fatal(failed, err)
			}
			got := replyOf(t, r, result, nil)
			if got["_msg_id"] != r.MessageID || got["_unique_id"] == "" {
				t.Errorf("ids %v, %v", got["_msg_id"], got["_unique_id"])
			}
			for _, id := range []string{"_msg_id", "_unique_id"} {
				delete(got, id)
				delete(want, id)
			}
			if !reflect.DeepEqual(ordered(got), ordered(want)) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			req := g.requests()[0]
			wantOperation, wantAlternates := cellgatev1.Operation_OPERATION_UNSPECIFIED, strings.HasPrefix(name, "boot")
			if name == "rebuild" {
				wantOperation = cellgatev1.Operation_REBUILD
			}
			if req.GetOperation() != wantOperation || req.GetReturnAlternates() != wantAlternates || req.GetDryRun() {
				t.Errorf("operation %v, alternates %v, dry run %v", req.GetOperation(), req.GetReturnAlternates(), req.GetDryRun())
			}
			if wantAlternates && req.GetMaxAlternates() != 2 || !strings.HasPrefix(req.GetRequestId(), "nova/req-") {
				t.Errorf("%d alternates, id %s", req.GetMaxAlternates(), req.GetRequestId())
			}
		})
	}
}

func TestSelectDestinations_NoHostPasses_RaisesNoValidHostAsNova(t *testing.T) {
	all := recordings(t)
	g := &gateway{answer: func(context.Context, *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		e := fault.New(fault.NoValidHost, "no host")
		e.Detail = &cellgatev1.NoValidHost{Hosts: 10, Rejects: []*cellgatev1.RejectCount{{Filter: "ResourceFilter", Detail: "VCPU", Hosts: 10}}}
		return nil, e
	}}
	for report, reason := range map[string]string{
		"none": "There are not enough hosts available.", "filters": "There are not enough hosts available. Rejected by ResourceFilter(VCPU)",
		"counts": "There are not enough hosts available. Of 10 hosts: 10 ResourceFilter(VCPU)",
	} {
		r := all["boot_fail"].request(t)
		_, failed, err := newBus(t, g, func(c *Config) { c.Reasons = report }).dispatch(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		var got, want failure
		if err := json.Unmarshal([]byte(replyOf(t, r, nil, failed)["failure"].(string)), &got); err != nil {
			t.Fatal(err)
		}
		var reply struct{ Failure string }
		if err := json.Unmarshal(all["boot_fail reply"].Message, &reply); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(reply.Failure), &want); err != nil {
			t.Fatal(err)
		}
		if got.Class != want.Class || got.Module != want.Module || got.Message != want.Message+reason || len(got.Args) != 1 || got.Args[0] != got.Message {
			t.Errorf("%+v, Nova's %+v", got, want)
		}
		want.Kwargs["reason"] = reason
		if !reflect.DeepEqual(got.Kwargs, want.Kwargs) {
			t.Errorf("keywords %v, want %v", got.Kwargs, want.Kwargs)
		}
	}
}

func TestException_Refused_RaisesWhatConductorsUnderstand(t *testing.T) {
	b := newBus(t, &gateway{answer: hosts("a")}, nil)
	for kind, want := range map[fault.Kind][2]string{
		fault.InvalidRequest:   {"nova.exception", "NoValidHost"},
		fault.CellUnavailable:  {"oslo_messaging.exceptions", "MessagingTimeout"},
		fault.Overloaded:       {"oslo_messaging.exceptions", "MessagingTimeout"},
		fault.PermissionDenied: {"cellgate", "PERMISSION_DENIED"},
		fault.AlreadyExists:    {"nova.exception", "AllocationUpdateFailed"},
	} {
		failed := b.exception(&request{APIRequest: "req-1"}, fault.New(kind, "so it is"))
		if failed.Module != want[0] || failed.Class != want[1] || !strings.Contains(failed.Message, "so it is") {
			t.Errorf("%s: %+v", kind, failed)
		}
	}
}

// When the time of a request is over, the conductor gets an error instead of waiting.
func TestSelectDestinations_CellStaysAway_RaisesMessagingTimeout(t *testing.T) {
	g := &gateway{answer: func(context.Context, *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		return nil, fault.New(fault.CellUnavailable, "a cell is away")
	}}
	_, failed, err := newBus(t, g, func(c *Config) { c.Timeout = 20 * time.Millisecond }).dispatch(t.Context(), recordings(t)["boot"].request(t))
	if err != nil || failed == nil || failed.Class != "MessagingTimeout" {
		t.Errorf("%+v %v", failed, err)
	}
}

// The bus retries after a temporary refusal, so that the conductor does not see it.
func TestSelectDestinations_CellComesBack_AnswersWithOneRequestID(t *testing.T) {
	n := 0
	g := &gateway{}
	g.answer = func(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		if n++; n < 3 {
			return nil, fault.New(fault.CellUnavailable, "a cell is away")
		}
		return hosts("a")(ctx, req)
	}
	_, failed, err := newBus(t, g, nil).dispatch(t.Context(), recordings(t)["boot"].request(t))
	asked := g.requests()
	if failed != nil || err != nil || len(asked) != 3 || asked[0].GetRequestId() != asked[2].GetRequestId() {
		t.Fatal(failed, err, len(asked))
	}
}

// If an instance has a claim of another API request, the bus asks for a move. It releases a
// pending claim of an earlier attempt.
func TestSelectDestinations_InstanceHasClaim_AsksForMove(t *testing.T) {
	all := recordings(t)
	own := requestPrefix(all["live_migrate"].request(t).APIRequest)
	for _, tt := range []struct {
		name    string
		state   cellgatev1.ClaimState
		request string
		want    []cellgatev1.Operation
		freed   []string
	}{
		{"confirmed", cellgatev1.ClaimState_CONFIRMED, "nova/req-other/x", []cellgatev1.Operation{0, cellgatev1.Operation_MOVE}, nil},
		{"pending, of another attempt", cellgatev1.ClaimState_PENDING, own + "x", []cellgatev1.Operation{0, 0}, []string{claimID}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := &gateway{}
			first := true
			g.answer = func(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
				if first {
					first = false
					return nil, hasClaim(req, tt.state, tt.request)
				}
				return hosts("a")(ctx, req)
			}
			_, failed, err := newBus(t, g, nil).dispatch(t.Context(), all["live_migrate"].request(t))
			if failed != nil || err != nil {
				t.Fatal(failed, err)
			}
			if got := g.operations(); !slices.Equal(got, tt.want) || !slices.Equal(g.released, tt.freed) {
				t.Errorf("operations %v, released %v", got, g.released)
			}
		})
	}
}

// If a message is delivered again, the claim of the move that it made is found, and not released.
func TestSelectDestinations_MoveDeliveredAgain_KeepsItsClaim(t *testing.T) {
	r := recordings(t)["live_migrate"].request(t)
	g := &gateway{}
	made := ""
	g.answer = func(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		if req.GetOperation() == cellgatev1.Operation_MOVE {
			made = req.GetRequestId()
			return hosts("a")(ctx, req)
		}
		if made != "" {
			return nil, hasClaim(req, cellgatev1.ClaimState_PENDING, made)
		}
		return nil, hasClaim(req, cellgatev1.ClaimState_CONFIRMED, "nova/req-other/x")
	}
	b := newBus(t, g, nil)
	for range 2 {
		if _, failed, err := b.dispatch(t.Context(), r); failed != nil || err != nil {
			t.Fatal(failed, err)
		}
	}
	asked := g.requests()
	if len(asked) != 4 || !proto.Equal(asked[1], asked[3]) || len(g.released) != 0 {
		t.Errorf("%d calls, released %v", len(asked), g.released)
	}
}

// Nova moves a server again before the claim of the earlier move is confirmed. The bus has
// Nova's rows read, and asks again.
func TestSelectDestinations_EarlierMoveIsNotConfirmedYet_Waits(t *testing.T) {
	g, moves := &gateway{}, 0
	g.answer = func(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		if req.GetOperation() == cellgatev1.Operation_MOVE {
			moves++
		}
		if moves < 3 {
			return nil, hasClaim(req, cellgatev1.ClaimState_PENDING, "nova/req-other/x")
		}
		return hosts("a")(ctx, req)
	}
	b := newBus(t, g, nil)
	var read []string
	b.changed = func(cell string) { read = append(read, cell) }
	_, failed, err := b.dispatch(t.Context(), recordings(t)["live_migrate"].request(t))
	if failed != nil || err != nil || moves != 3 || len(g.released) != 0 || !slices.Equal(read, []string{"cell1", "cell1"}) {
		t.Errorf("%+v %v after %d moves, released %v, read %v", failed, err, moves, g.released, read)
	}
}

// A resize that was reverted leaves a pending claim, which nobody confirms any more.
func TestSelectDestinations_EarlierMoveWasReverted_ReleasesItsClaim(t *testing.T) {
	g := &gateway{}
	g.answer = func(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.released) == 0 {
			return nil, hasClaim(req, cellgatev1.ClaimState_PENDING, "nova/req-other/x")
		}
		return hosts("a")(ctx, req)
	}
	b := newBus(t, g, nil)
	b.settleWait = time.Millisecond
	_, failed, err := b.dispatch(t.Context(), recordings(t)["live_migrate"].request(t))
	ops := g.operations()
	if failed != nil || err != nil || !slices.Equal(g.released, []string{claimID}) || ops[len(ops)-1] != cellgatev1.Operation_MOVE {
		t.Errorf("%+v %v, operations %v, released %v", failed, err, ops, g.released)
	}
}

// Nova moves one server at a time, so a request for several is no move.
func TestSelectDestinations_SeveralInstancesHaveClaims_IsRefused(t *testing.T) {
	g := &gateway{answer: func(_ context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		return nil, hasClaim(req, cellgatev1.ClaimState_CONFIRMED, "nova/req-other/x")
	}}
	_, failed, err := newBus(t, g, nil).dispatch(t.Context(), recordings(t)["groups"].request(t))
	if err != nil || failed == nil || failed.Class != "AllocationUpdateFailed" || !slices.Equal(g.operations(), []cellgatev1.Operation{0}) {
		t.Errorf("%+v %v after the operations %v", failed, err, g.operations())
	}
}

// A confirmed claim beside the source of a move may be where the instance is.
func TestSelectDestinations_TwoConfirmedClaims_NoneIsReleased(t *testing.T) {
	g := &gateway{answer: func(_ context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		return nil, hasClaim(req, cellgatev1.ClaimState_CONFIRMED, "nova/req-other/x")
	}}
	b := newBus(t, g, nil)
	b.settleWait = time.Millisecond
	_, failed, err := b.dispatch(t.Context(), recordings(t)["live_migrate"].request(t))
	if err != nil || failed == nil || failed.Class != "AllocationUpdateFailed" || len(g.released) != 0 {
		t.Errorf("%+v %v, released %v", failed, err, g.released)
	}
}

// Python writes a set in a different order in each process, but the request id is the same.
func TestRequestID_SetsInAnotherOrder_IsTheSame(t *testing.T) {
	all := recordings(t)
	b := newBus(t, &gateway{answer: hosts("a")}, nil)
	id := func(change func(spec map[string]any)) string {
		var m map[string]any
		if err := json.Unmarshal(all["groups"].Message, &m); err != nil {
			t.Fatal(err)
		}
		change(m["args"].(map[string]any)["spec_obj"].(map[string]any))
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		a, failed := readArguments(recorded{Message: text}.request(t))
		if failed != nil {
			t.Fatal(failed)
		}
		req, err := a.request("req-1", b.cfg.MaxAttempts-1, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		return req.GetRequestId()
	}
	same := id(func(map[string]any) {})
	if id(func(spec map[string]any) { spec["nova_object.changes"] = []any{"x"} }) != same {
		t.Error("what changed since the object was loaded counts")
	}
	hosts := func(order ...any) string {
		return id(func(spec map[string]any) { spec["nova_object.data"].(map[string]any)["ignore_hosts"] = order })
	}
	if hosts("a", "b") != hosts("b", "a") || hosts("a") == hosts("b") || hosts("a") == same {
		t.Error("ignored hosts: the order counts, or the hosts do not")
	}
}

func TestSelectDestinations_LegacyDictionaries_AsksForTheSame(t *testing.T) {
	body := `{"method": "select_destinations", "version": "4.0", "args": {
		"request_spec": {"num_instances": 2, "image": {"id": "i1", "min_ram": 64, "properties": {"hw-cpu_policy": "dedicated"}},
			"instance_properties": {"uuid": "874b661d-24d1-4cac-a055-7b476bb17fb6", "project_id": "p", "user_id": "u", "availability_zone": "az1"},
			"instance_type": {"flavorid": "f", "memory_mb": 512, "vcpus": 1, "root_gb": 1, "ephemeral_gb": 0, "swap": 0, "extra_specs": {}}},
		"filter_properties": {"ignore_hosts": ["h2"], "scheduler_hints": {"different_host": "x"},
			"group_updated": true, "group_policies": ["affinity"], "group_hosts": ["h1"], "group_members": ["m1"], "group_uuid": "g1", "limits": {}}}}`
	r, err := decodeRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{answer: func(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
		resp, err := hosts("a")(ctx, req)
		limits, _ := structpb.NewStruct(map[string]any{"memory_mb": 1024.0})
		resp.Destinations[0].Selected.Limits = limits
		return resp, err
	}}
	result, failed, err := newBus(t, g, nil).dispatch(t.Context(), r)
	if failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	text, err := json.Marshal(result)
	if want := `[{"host":"a","nodename":"a","limits":{"memory_mb":1024}},{"host":"a","nodename":"a","limits":{}}]`; err != nil || string(text) != want {
		t.Errorf("%s %v", text, err)
	}
	req := g.requests()[0]
	if !req.GetDryRun() || len(req.GetInstanceUuids()) != 2 || req.GetReturnAlternates() {
		t.Errorf("%v", req)
	}
	spec := specOf(req)
	group := spec["instance_group"].GetStructValue().GetFields()["nova_object.data"].GetStructValue().AsMap()
	if !reflect.DeepEqual(group, map[string]any{"policy": "affinity", "hosts": []any{"h1"}, "members": []any{"m1"}, "uuid": "g1"}) {
		t.Errorf("group %v", group)
	}
	if spec["availability_zone"].GetStringValue() != "az1" || spec["scheduler_hints"].GetStructValue().AsMap()["different_host"].([]any)[0] != "x" {
		t.Errorf("%v", spec)
	}
	image := spec["image"].GetStructValue().GetFields()["nova_object.data"].GetStructValue().GetFields()
	if image["properties"].GetStructValue().GetFields()["nova_object.data"].GetStructValue().GetFields()["hw_cpu_policy"].GetStringValue() != "dedicated" {
		t.Errorf("image %v", image)
	}
}

func TestSelectDestinations_TooLargeOrTooDeep_RaisesNoValidHost(t *testing.T) {
	b := newBus(t, &gateway{answer: hosts("a")}, nil)
	for name, spec := range map[string]string{
		"5 MB": `{"x": "` + strings.Repeat("x", 5<<20) + `"}`,
		"deep": strings.Repeat(`{"x":`, 100) + "1" + strings.Repeat("}", 100),
		"list": `[]`,
	} {
		r := &request{Method: "select_destinations", Version: "4.5", Args: map[string]json.RawMessage{"spec_obj": json.RawMessage(spec)}}
		_, failed, err := b.dispatch(t.Context(), r)
		if err != nil || failed == nil || failed.Class != "NoValidHost" || !strings.Contains(failed.Message, "cannot be honoured") {
			t.Errorf("%s: %v %v", name, failed, err)
		}
	}
}

func TestDispatch_UnknownMethodsAndVersions_RaisesAsOslo(t *testing.T) {
	b := newBus(t, &gateway{answer: hosts("a")}, nil)
	for _, tt := range []struct{ namespace, version, method, class, message string }{
		{"", "4.5", "nothing", "NoSuchMethod", "Endpoint does not support RPC method nothing"},
		{"", "4.6", "select_destinations", "UnsupportedVersion", "Endpoint does not support RPC version 4.6. Attempted method: select_destinations"},
		{"", "5.0", "select_destinations", "UnsupportedVersion", "Endpoint does not support RPC version 5.0. Attempted method: select_destinations"},
		{"", "four", "select_destinations", "UnsupportedVersion", "Endpoint does not support RPC version four. Attempted method: select_destinations"},
		{"other", "1.0", "ping", "UnsupportedVersion", "Endpoint does not support RPC version 1.0. Attempted method: ping"},
		{"", "4.2", "sync_instance_info", "TypeError", "sync_instance_info() missing 1 required positional argument: 'host_name'"},
	} {
		_, failed, err := b.dispatch(t.Context(), &request{Namespace: tt.namespace, Version: tt.version, Method: tt.method})
		if err != nil || failed == nil || failed.Class != tt.class || failed.Message != tt.message {
			t.Errorf("%+v: %+v %v", tt, failed, err)
		}
	}
	result, failed, err := b.dispatch(t.Context(), &request{Namespace: "baseapi", Version: "1.0", Method: "ping", Args: map[string]json.RawMessage{"arg": json.RawMessage(`"x"`)}})
	if text, _ := json.Marshal(result); failed != nil || err != nil || string(text) != `{"arg":"x","service":"scheduler"}` {
		t.Errorf("ping: %s %v %v", text, failed, err)
	}
}

func TestDispatch_RecordedCasts_AreAccepted(t *testing.T) {
	b := newBus(t, &gateway{answer: hosts("a")}, nil)
	for _, name := range []string{"sync_instance_info", "update_instance_info", "delete_instance_info", "update_aggregates", "delete_aggregate"} {
		r := recordings(t)[name].request(t)
		if r.awaitsReply() || r.Method != name {
			t.Errorf("%+v", r)
		}
		if _, failed, err := b.dispatch(t.Context(), r); failed != nil || err != nil {
			t.Errorf("%s: %v %v", name, failed, err)
		}
	}
}

func TestRecent_ManyTexts_KeepsTheNewest(t *testing.T) {
	var r recent
	now := time.Now()
	for i := range keepRecent + 10 {
		r.add(strings.Repeat("x", i+1), now)
	}
	if !r.at("x").IsZero() || r.at(strings.Repeat("x", keepRecent+10)).IsZero() || len(r.known) != keepRecent {
		t.Errorf("%d are kept", len(r.known))
	}
}

func TestRecent_TextAddedAgain_IsNotForgottenFirst(t *testing.T) {
	var r recent
	now := time.Now()
	for i := range keepRecent {
		r.add(strings.Repeat("x", i+1), now)
	}
	r.add("x", now)
	r.add("new", now)
	if r.at("x").IsZero() || !r.at("xx").IsZero() || len(r.known) != keepRecent || len(r.order) != keepRecent {
		t.Errorf("%d are kept, %d in order", len(r.known), len(r.order))
	}
}
