package main

import (
	"encoding/json"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// decision is the decision of the examples of answers.
const decision = "cell1.01M884EGRCFDGQECE31X1WB9C0"

var decided = timestamppb.New(time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC))

// answers has an example of the answer of each main call, by the name of its method.
var answers = map[string]proto.Message{
	"SelectDestinations": &cellgatev1.SelectDestinationsResponse{
		Destinations: []*cellgatev1.Destinations{{
			InstanceUuid: instance,
			Selected: &cellgatev1.Selection{
				ServiceHost: "compute-17", Nodename: "compute-17.example", ComputeNodeUuid: host, Cell: "cell1", AvailabilityZone: "az1", Weight: 2.75,
				Claimed: true, ClaimId: claim, ClaimState: cellgatev1.ClaimState_PENDING, ClaimExpiresAt: timestamppb.New(decided.AsTime().Add(5 * time.Minute)),
			},
			Alternates: []*cellgatev1.Selection{{ServiceHost: "compute-3", Nodename: "compute-3.example", ComputeNodeUuid: "83f1a3a6-5c9f-4f0c-8a51-5f3a6f7a9f03", Cell: "cell2", AvailabilityZone: "az1", Weight: 2.5}},
		}},
		DecisionId: decision, Exact: true,
		Cells: []*cellgatev1.CellReport{{
			Cell: "cell1", Outcome: cellgatev1.CellOutcome_SEARCHED, Hosts: 1000, Passed: 970,
			Rejects: []*cellgatev1.RejectCount{{Filter: "ResourceFilter", Detail: "MEMORY_MB", Hosts: 30}},
		}},
	},
	"ListCells": &cellgatev1.ListCellsResponse{Cells: []*cellgatev1.Cell{{
		Cell: "cell1", CellUuid: "c0000000-0000-4000-8000-000000000001", Enabled: true, Available: true, Replicas: []string{"10.0.0.11:9101"},
		Hosts: 1000, HostsUp: 998, ClaimsPending: 3, ClaimsConfirmed: 7121, AvailabilityZones: []string{"az1", "az2"},
	}}},
	"ListHosts": &cellgatev1.ListHostsResponse{UnknownValues: []string{`no cell has zone "az9"; did you mean "az1"?`}},
}

// refused is the example of an error with details: no host for a request.
var refused = &cellgatev1.NoValidHost{
	Hosts:   1000,
	Rejects: []*cellgatev1.RejectCount{{Filter: "ResourceFilter", Detail: "VCPU", Hosts: 985}, {Filter: "ComputeFilter", Detail: "disabled", Hosts: 15}},
	Cells: []*cellgatev1.CellReport{{
		Cell: "cell1", Outcome: cellgatev1.CellOutcome_SEARCHED, Hosts: 1000,
		Rejects: []*cellgatev1.RejectCount{{Filter: "ResourceFilter", Detail: "VCPU", Hosts: 985}, {Filter: "ComputeFilter", Detail: "disabled", Hosts: 15}},
	}},
	SmallestChange: "ask for at most 64 VCPU (asked 257, max_unit is 64)",
	TenantMessage:  "No valid host was found. No available host has all that was asked for; what hosts lack: room for the VCPU.",
}

// answered gives a message as the gateway writes it in an answer.
func answered(m proto.Message) (json.RawMessage, error) {
	return protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
}

// errorExamples gives the examples of an answer that is an error.
func errorExamples() (object, error) {
	detail, err := answered(refused)
	if err != nil {
		return nil, err
	}
	var typed map[string]any
	if err := json.Unmarshal(detail, &typed); err != nil {
		return nil, err
	}
	typed["@type"] = "type.googleapis.com/cellgate.v1.NoValidHost"
	full, err := json.Marshal(map[string]any{
		"code": 9, "reason": "NO_VALID_HOST", "message": "No valid host was found. 0 of 1,000 hosts: 985 have too little VCPU, 15 are disabled",
		"details": []any{
			map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "NO_VALID_HOST", "domain": "cellgate", "metadata": map[string]string{"decision_id": decision}},
			typed,
		},
	})
	return object{
		{"not_found", object{{"value", examples["Error"]}}},
		{"no_valid_host", object{{"summary", "A refused selection."}, {"value", json.RawMessage(full)}}},
	}, err
}
