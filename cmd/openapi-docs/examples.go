package main

import "encoding/json"

// Identifiers of the examples.
const (
	instance = "1a5e0000-0000-4000-8000-000000000001"
	claim    = "01M884EGRCFDGQECE31X1WB9C1"
	host     = "710c6178-bcf9-40bc-9303-112cd17ef687"
)

const request = `{
 "request_id": "req-1",
 "operation": "BUILD",
 "instance_uuids": ["` + instance + `"],
 "request_spec": {
  "flavor": {"name": "m1.small", "vcpus": 2, "memory_mb": 4096, "root_gb": 20},
  "required_traits": ["HW_CPU_X86_AVX2"],
  "availability_zone": "az1"
 },
 "return_alternates": true
}`

// examples has the bodies of requests by the names of their methods, and of an error. A test reads each
// one as the gateway does.
var examples = map[string]json.RawMessage{
	"SelectDestinations":  json.RawMessage(request),
	"ExplainDestinations": json.RawMessage(request),
	"EstimateCapacity": json.RawMessage(`{
 "shapes": [{"name": "m1.large", "request_spec": {"flavor": {"vcpus": 8, "memory_mb": 16384, "root_gb": 40}}}],
 "mode": "EACH"
}`),
	"PlanDrain":      json.RawMessage(`{"hosts": ["compute-17", "` + host + `"]}`),
	"ConfirmClaim":   json.RawMessage(`{"claim_id": "` + claim + `"}`),
	"ClaimAlternate": json.RawMessage(`{"claim_id": "` + claim + `", "host_uuid": "` + host + `", "claim_ttl": "300s"}`),
	"TransferClaim":  json.RawMessage(`{"claim_id": "` + claim + `", "to_consumer": "1a5e0000-0000-4000-8000-000000000002"}`),
	"UpdateCell":     json.RawMessage(`{"gate_pin": "LEGACY", "reason": "agents of rack 7 are being replaced"}`),
	"UpdateHost":     json.RawMessage(`{"admin_state": "MAINTENANCE", "reason": "new memory", "lasts": "7200s"}`),
	"ResyncHosts":    json.RawMessage(`{"cell": "cell1", "reason": "after a restore of the shard"}`),
	"PutFacts":       json.RawMessage(`{"volume_backend": "ssd", "free_gb": 900}`),
	"Error": json.RawMessage(`{
 "code": 5,
 "reason": "NOT_FOUND",
 "message": "there is no cell \"cell9\"",
 "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "NOT_FOUND", "domain": "cellgate", "metadata": {}}]
}`),
}

// parameterExamples has values for the parameters of paths and queries, by their names. It has no
// page_token, which only an answer gives.
var parameterExamples = map[string]any{
	"cell": "cell1", "host_cell": "cell1", "host": "compute-17", "host_uuid": host, "name_contains": "compute-1",
	"instance_uuid": instance, "consumer_uuid": instance, "claim_id": claim, "decision_id": decision,
	"request_id": "req-1", "project_id": "4f1c5b2e8a0d4c6f9b7e3a1d2c5f8e60", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
	"availability_zone": "az1", "trait": "HW_CPU_X86_AVX2", "namespace": "storage", "if_generation": "42",
	"since": "2026-11-25T12:00:00Z", "until": "2026-11-25T13:00:00Z", "outcome": "REFUSED", "kind": "ORPHANED_CLAIM", "repaired": true,
	"reason": "NO_VALID_HOST", "page_size": 100,
}
