package security

import (
	"maps"
	"slices"
)

// healthWatch is the only stream that needs no credential.
const healthWatch = "grpc.health.v1.Health/Watch"

// The access rules, by method. Nobody may call a method without a row.
var access = map[string][]Role{
	"cellgate.v1.Scheduler/SelectDestinations": {Conductor, Operator},
	// The answer shows hosts and what they lack.
	"cellgate.v1.Scheduler/ExplainDestinations": {Conductor, Operator},

	"cellgate.v1.Scheduler/GetDecision":   {Conductor, Operator, Reader},
	"cellgate.v1.Scheduler/ListDecisions": {Conductor, Operator, Reader},

	"cellgate.v1.Capacity/EstimateCapacity": {Operator, Reader},
	"cellgate.v1.Capacity/PlanDrain":        {Operator, Reader},

	"cellgate.v1.Claims/ClaimAlternate": {Conductor, Operator},
	"cellgate.v1.Claims/TransferClaim":  {Conductor, Operator},
	"cellgate.v1.Claims/GetClaim":       {Conductor, Operator, Reader},
	"cellgate.v1.Claims/ListClaims":     {Conductor, Operator, Reader},
	"cellgate.v1.Claims/ConfirmClaim":   {Conductor, Operator},
	"cellgate.v1.Claims/ReleaseClaim":   {Conductor, Operator},

	"cellgate.v1.Cells/ListCells":  {Operator, Reader},
	"cellgate.v1.Cells/GetCell":    {Operator, Reader},
	"cellgate.v1.Cells/UpdateCell": {Operator},

	"cellgate.v1.Cells/ListFindings": {Operator, Reader},

	"cellgate.v1.Hosts/ListHosts": {Operator, Reader, Service},
	"cellgate.v1.Hosts/GetHost":   {Operator, Reader, Service},

	"cellgate.v1.Hosts/PutFacts":    {Operator, Service},
	"cellgate.v1.Hosts/GetFacts":    {Operator, Reader, Service},
	"cellgate.v1.Hosts/DeleteFacts": {Operator, Service},
	"cellgate.v1.Hosts/ResyncHosts": {Operator},
	"cellgate.v1.Hosts/UpdateHost":  {Operator},
	"cellgate.v1.Hosts/DeleteHost":  {Operator},

	"cellgate.cell.v1.CellScheduler/ProposeBatch":  {Gateway},
	"cellgate.cell.v1.CellScheduler/ClaimBatch":    {Gateway},
	"cellgate.cell.v1.CellScheduler/ListClaims":    {Gateway},
	"cellgate.cell.v1.CellScheduler/ListHosts":     {Gateway},
	"cellgate.cell.v1.CellScheduler/GetSummary":    {Gateway},
	"cellgate.cell.v1.CellScheduler/PutFacts":      {Gateway},
	"cellgate.cell.v1.CellScheduler/SetAdminState": {Gateway},
	"cellgate.cell.v1.CellScheduler/RemoveHost":    {Gateway},
	"cellgate.cell.v1.CellScheduler/PutDecisions":  {Gateway},
	"cellgate.cell.v1.CellScheduler/GetDecision":   {Gateway},
	"cellgate.cell.v1.CellScheduler/ListDecisions": {Gateway},
	"cellgate.cell.v1.CellScheduler/ReportLegacy":  {Gateway},
	"cellgate.cell.v1.CellScheduler/ImportHosts":   {Gateway},
	"cellgate.cell.v1.CellScheduler/FindUnclaimed": {Gateway},
	"cellgate.cell.v1.CellScheduler/PinGate":       {Gateway},
	"cellgate.cell.v1.CellScheduler/ResyncHosts":   {Gateway},
	"cellgate.cell.v1.CellScheduler/ListFindings":  {Gateway},
	"cellgate.cell.v1.CellScheduler/TryPlacements": {Gateway},

	"cellgate.cell.v1.CellPlacement/ListProviders":  {Gateway},
	"cellgate.cell.v1.CellPlacement/ListConsumers":  {Gateway},
	"cellgate.cell.v1.CellPlacement/SumUsages":      {Gateway},
	"cellgate.cell.v1.CellPlacement/ListNames":      {Gateway},
	"cellgate.cell.v1.CellPlacement/FindCandidates": {Gateway},
	"cellgate.cell.v1.CellPlacement/WritePlacement": {Gateway},
	"cellgate.cell.v1.CellPlacement/ChangeName":     {Gateway},

	"cellgate.agent.v1.HostReports/Report": {Agent},

	"grpc.health.v1.Health/Check": {},
	"grpc.health.v1.Health/List":  {},
	healthWatch:                   {},

	"grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      {Operator, Reader},
	"grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {Operator, Reader},

	// The console's files; the data that they show comes from the API.
	"GET /":             {},
	"GET /console.js":   {},
	"GET /console.css":  {},
	"GET /favicon.svg":  {},
	"GET /licenses.txt": {},
	"GET /v1/events":    {Operator, Reader},
	"GET /healthz":      {},
	"GET /readyz":       {},
	"GET /openapi.json": {Operator, Reader},
	"GET /metrics":      {Operator, Reader},
}

// Access gives the access rules: the roles that may call a method; none for everybody, even without a
// credential. A method is service/method as in gRPC, or an HTTP method and path for content that only HTTP
// serves.
func Access() map[string][]Role { return maps.Clone(access) }

// open reports whether everybody may call a method, even without a credential.
func open(method string) bool {
	roles, known := access[method]
	return known && len(roles) == 0
}

// may reports whether a role may call a method.
func may(role Role, method string) bool { return slices.Contains(access[method], role) }
