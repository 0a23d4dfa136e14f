package telemetry

import (
	"slices"
	"strings"

	"cellgate/internal/fault"
	"cellgate/schedule"
)

// Metric describes one metric. The variables below are all metrics.
type Metric struct {
	Name string
	Kind Kind
	// Unit is the unit of the value; "" if the metric counts the things that Help names.
	Unit   string
	Help   string
	Labels []Label
	// Buckets are a histogram's upper bounds.
	Buckets []float64
	// Of is the kind of process that has the metric.
	Of string
}

// Kind is the kind of a metric.
type Kind string

// The kinds of metrics. A Reading is a gauge and a Tally a counter whose value is read at each scrape.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Reading   Kind = "gauge, read at scrape"
	Tally     Kind = "counter, read at scrape"
	Histogram Kind = "histogram"
)

// Queue names a queue of a gateway's calls.
type Queue string

// The queues of a gateway.
const (
	QueueSelections Queue = "selections"
	QueueClaims     Queue = "claims"
	QueueOthers     Queue = "others"
)

// Label is a dimension of a metric.
type Label struct {
	Name string
	// Values are all allowed values; nil if From bounds them instead.
	Values []string
	// From says what bounds the values if no list does.
	From string
}

const (
	everyProcess = "every process"
	inGateway    = "gateway"
	inCell       = "cell"
	inAgent      = "agent"
)

// OK is the outcome of a success. Other outcomes are kinds of errors, and the two for callers that
// left.
const (
	OK       = "OK"
	Canceled = "CANCELED"
	Deadline = "DEADLINE_EXCEEDED"
)

// The stages of a selection, in order. The names of their spans begin with "gateway.".
const (
	StageAdmit     Stage = "admit"
	StageTranslate Stage = "translate"
	StageRoute     Stage = "route"
	StagePropose   Stage = "propose"
	StageMerge     Stage = "merge"
	StagePin       Stage = "pin"
	StageClaim     Stage = "claim"
	StageAnswer    Stage = "answer"
)

// Stage is a stage of a selection.
type Stage string

// Stages lists them.
func Stages() []Stage {
	return []Stage{StageAdmit, StageTranslate, StageRoute, StagePropose, StageMerge, StagePin, StageClaim, StageAnswer}
}

// Inexact is why a selection was answered with exact=false.
type Inexact string

// The reasons.
const (
	// InexactSpread: the pick was among the first few hosts, because claims are refused.
	InexactSpread Inexact = "spread"
	// InexactVersion: the merge could not continue with one version of each table.
	InexactVersion Inexact = "version"
	// InexactRounds: the merge did not converge within its rounds.
	InexactRounds Inexact = "rounds"
	// InexactCut: a replica that is loading its table considered only some of its hosts.
	InexactCut Inexact = "cut"
)

// Certificate is the use of a file of certificates.
type Certificate string

// The uses.
const (
	CertificateServer    Certificate = "server"
	CertificateCallersCA Certificate = "callers_ca"
	CertificateClient    Certificate = "client"
	CertificateServersCA Certificate = "servers_ca"
)

// other replaces a value that is not in a label's list.
const other = "other"

func outcomes() []string {
	return slices.Concat([]string{OK, Canceled, Deadline}, texts(fault.Kinds()...), []string{other})
}

func texts[T ~string](list ...T) []string {
	var all []string
	for _, v := range list {
		all = append(all, string(v))
	}
	return all
}

// The labels.
var (
	labelCell       = Label{Name: "cell", From: "the cells of the configuration"}
	labelReplica    = Label{Name: "replica", From: "the name of the replica in its own configuration"}
	labelAddress    = Label{Name: "address", From: "the addresses of replicas in a gateway's configuration"}
	labelDoor       = Label{Name: "method", From: "the rows of docs/reference/security.md; TLS handshake; of REST, /v1/ and / for what has no row"}
	labelRefusal    = Label{Name: "reason", Values: []string{string(fault.Unauthenticated), string(fault.PermissionDenied), other}}
	labelFile       = Label{Name: "certificate", Values: append(texts(CertificateServer, CertificateCallersCA, CertificateClient, CertificateServersCA), other)}
	labelRPC        = Label{Name: "rpc", From: "the methods of the protos"}
	labelOutcome    = Label{Name: "outcome", Values: outcomes()}
	labelStage      = Label{Name: "stage", Values: texts(Stages()...)}
	labelFilter     = Label{Name: "filter", Values: append(schedule.Filters(), other)}
	labelReader     = Label{Name: "by", Values: append(append(schedule.Filters(), schedule.Weighers()...), other)}
	labelSize       = Label{Name: "instances", Values: []string{"one", "several"}}
	labelSearch     = Label{Name: "search", Values: []string{"searched", "skipped", "unavailable", "deadline_too_short", other}}
	labelBreaker    = Label{Name: "to", Values: []string{"closed", "half-open", "open", other}}
	labelClaimed    = Label{Name: "end", Values: []string{"made", "refused"}}
	labelInexact    = Label{Name: "reason", Values: texts(InexactSpread, InexactVersion, InexactRounds, InexactCut)}
	labelDecision   = Label{Name: "end", Values: []string{"written", "dropped"}}
	labelGate       = Label{Name: "to", Values: GateStates()}
	labelRead       = Label{Name: "end", Values: []string{"read", "failed"}}
	labelOp         = Label{Name: "op", Values: append(Ops(), other)}
	labelVerify     = Label{Name: "mode", Values: []string{"async", "sync", "shadow", other}}
	labelVerdict    = Label{Name: "verdict", Values: []string{"ok", "NO_ROOM", "NO_NUMA", "NO_PCI", "DISABLED", "UNKNOWN_PROVIDER", "INSTANCE_EXISTS", "ABORTED", "UNSPECIFIED", other}}
	labelWaitEnd    = Label{Name: "end", Values: []string{"arrived", "late"}}
	labelQueue      = Label{Name: "queue", Values: []string{"urgent", "other"}}
	labelEvent      = Label{Name: "event", Values: []string{"rerun", "relocked", "connection_lost", "commit_unknown", "commit_resolved", "statement_timeout", "pool_empty", "no_connection_left", "refused"}}
	labelConnection = Label{Name: "state", Values: []string{"in_use", "idle", "opening"}}
	labelCold       = Label{Name: "answer", Values: []string{"all", "cut", "refused"}}
	labelClaim      = Label{Name: "state", Values: []string{"pending", "confirmed"}}
	labelPacked     = Label{Name: "resource_class", Values: slices.Clone(schedule.PackedClasses[:])}
	labelShape      = Label{Name: "shape", From: "the amounts of VCPU, PCPU, MEMORY_MB and DISK_GB of instances: the ten that are most frequent among 4,096 live claims"}
	labelFinding    = Label{Name: "kind", Values: FindingKinds()}
	labelRepair     = Label{Name: "end", Values: []string{"done", "refused", "failed"}}
	labelCalls      = Label{Name: "calls", Values: texts(QueueSelections, QueueClaims, QueueOthers)}
	labelLimit      = Label{Name: "limit", Values: []string{"bytes", "caller_bytes", "large_requests", "connections", "address_connections", "open_calls", "caller_calls", other}}
	labelBusMethod  = Label{Name: "method", From: "the methods that nova-scheduler serves, and other"}
	labelException  = Label{Name: "outcome", Values: []string{"ok", "NoValidHost", "MessagingTimeout", "AllocationUpdateFailed", "NoSuchMethod", "UnsupportedVersion", "TypeError", other}}
	labelDropped    = Label{Name: "reason", Values: []string{"malformed", "duplicate", "no_caller", "notification", other}}
	labelPlacement  = Label{Name: "request", From: "the methods and paths of the Placement API, and other"}
	labelStatus     = Label{Name: "status", Values: []string{"200", "201", "204", "400", "401", "403", "404", "405", "406", "409", "413", "415", "500", "503", "504", other}}
	labelFinished   = Label{Name: "end", Values: []string{"done", "failed"}}
	labelVersion    = Label{Name: "version", From: "the build"}
	labelRevision   = Label{Name: "revision", From: "the build"}
)

var (
	seconds = []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10}
	sizes   = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}
	rounds  = []float64{1, 2, 3, 4, 6, 8, 12, 16, 32, 64}
)

// metrics are the metrics created below, in the order of the page.
var metrics []Metric

// metric creates a metric. The suffix of its name determines its unit. The labels of a cell's metric
// begin with those of the replica.
func metric(kind Kind, of, name, help string, buckets []float64, labels []Label) *Metric {
	m := Metric{Name: name, Kind: kind, Help: help, Labels: labels, Buckets: buckets, Of: of}
	for _, unit := range []string{"seconds", "bytes"} {
		if strings.HasSuffix(strings.TrimSuffix(name, "_total"), "_"+unit) {
			m.Unit = unit
		}
	}
	if of == inCell {
		m.Labels = append([]Label{labelCell, labelReplica}, labels...)
	}
	metrics = append(metrics, m)
	return &m
}

func counter(of, name, help string, labels ...Label) *Metric {
	return metric(Counter, of, name, help, nil, labels)
}

func gauge(of, name, help string, labels ...Label) *Metric {
	return metric(Gauge, of, name, help, nil, labels)
}

func reading(of, name, help string, labels ...Label) *Metric {
	return metric(Reading, of, name, help, nil, labels)
}

func tally(of, name, help string, labels ...Label) *Metric {
	return metric(Tally, of, name, help, nil, labels)
}

func histogram(of string, buckets []float64, name, help string, labels ...Label) *Metric {
	return metric(Histogram, of, name, help, buckets, labels)
}

// Metrics lists all metrics, in the order of the page.
func Metrics() []Metric { return metrics }

// The metrics.
var (
	gatewayRequests          = counter(inGateway, "cellgate_gateway_requests_total", "Requests answered, REST and gRPC, by method and outcome; those of REST that did not become a call too (rpc=other when they named none). Not those of cellgate_callers_refused_total that came through REST.", labelRPC, labelOutcome)
	gatewayRequestSeconds    = histogram(inGateway, seconds, "cellgate_gateway_request_seconds", "How long requests took in the gateway, whatever their outcome.", labelRPC)
	gatewayStageSeconds      = histogram(inGateway, seconds, "cellgate_gateway_stage_seconds", "How long each stage of a selection took. propose is one round over the cells; merge is planning without the rounds.", labelStage)
	gatewayMergeRounds       = histogram(inGateway, rounds, "cellgate_gateway_merge_rounds", "Rounds over the cells that one merge needed. The bucket le=1 over the count, with instances=one, is the one-round share.", labelSize)
	gatewayInFlight          = reading(inGateway, "cellgate_gateway_in_flight", "Calls that run or wait for their turn now, by kind.", labelCalls)
	gatewayLimit             = reading(inGateway, "cellgate_gateway_limit", "How many calls of a kind run at once at most. It adapts to how long they take.", labelCalls)
	gatewayShed              = tally(inGateway, "cellgate_gateway_shed_total", "Calls refused as OVERLOADED before they began, by kind: too many were under way, or their deadline was too near.", labelCalls)
	gatewayPlaced            = counter(inGateway, "cellgate_gateway_instances_placed_total", "Instances that were given a host.")
	gatewayInexact           = counter(inGateway, "cellgate_gateway_inexact_total", "Selections answered with exact=false, by the first reason. Reason spread: a pick among the first few hosts while claims are refused. Reason version: a merge that could not go on with one version of each table. Reason rounds: a merge that did not come to rest. Reason cut: a replica that loads its table searched some of its hosts alone.", labelInexact)
	gatewayPartial           = counter(inGateway, "cellgate_gateway_partial_total", "Selections answered without a cell that should have been asked.")
	gatewaySearches          = counter(inGateway, "cellgate_gateway_cell_searches_total", "What became of each cell in the selections that were answered; deadline_too_short: it did not answer in the little time that the caller's deadline left it.", labelCell, labelSearch)
	gatewayRejects           = counter(inGateway, "cellgate_gateway_rejected_hosts_total", "Hosts rejected, by the first filter that rejected them.", labelFilter)
	gatewayUnreadable        = counter(inGateway, "cellgate_gateway_unreadable_hosts_total", "Hosts whose data, or whose aggregates' metadata, a filter or weigher could not read, by its name, in each selection. Such a filter leaves the host out, or goes by its option instead of the metadata; a weigher weighs it without.", labelReader)
	gatewayRacesLost         = counter(inGateway, "cellgate_gateway_races_lost_total", "Attempts at which a claim lost its host to another request and was planned again.")
	gatewayTwoConfirmed      = counter(inGateway, "cellgate_gateway_duplicate_confirmed_total", "Times that an instance was seen to have two confirmed claims, neither of which moves the other: whenever it is asked for, and when a cell answers again that did not when the second claim was confirmed.")
	gatewayMovesFinished     = counter(inGateway, "cellgate_gateway_moves_finished_total", "Moves between cells that their caller did not finish, and that this gateway did or could not.", labelFinished)
	gatewayClaims            = counter(inGateway, "cellgate_gateway_claims_total", "Claims that cells answered: made, or refused since the host was given to another request first.", labelClaimed)
	gatewaySpread            = counter(inGateway, "cellgate_gateway_spread_picks_total", "Picks that were not the best host but one of the first few, since claims of the same shape are refused.")
	gatewayRestarts          = counter(inGateway, "cellgate_gateway_restarts_total", "Selections that gave back what they had claimed to start over.")
	gatewayDoubts            = counter(inGateway, "cellgate_gateway_doubtful_claims_total", "Claims whose outcome was unknown and that are released for safety.", labelCell)
	gatewayBatchQueries      = histogram(inGateway, sizes, "cellgate_gateway_propose_batch_queries", "Queries sent in one ProposeBatch call.")
	gatewayQueueRefused      = counter(inGateway, "cellgate_gateway_claim_queue_refused_total", "Callers' operations refused as OVERLOADED because too many waited to be sent to a replica of the cell.", labelCell)
	gatewayCallSeconds       = histogram(inGateway, seconds, "cellgate_gateway_cell_call_seconds", "How long calls to a cell took, whatever their outcome.", labelCell, labelRPC)
	gatewayCallErrors        = counter(inGateway, "cellgate_gateway_cell_call_errors_total", "Calls to a cell that failed, by the kind of error. CANCELED: the caller left, or the breaker opened. DEADLINE_EXCEEDED: no answer within its budget.", labelCell, labelRPC, labelOutcome)
	gatewaySummaryAge        = reading(inGateway, "cellgate_gateway_summary_age_seconds", "Age of the summary by which a cell is routed; absent before the first one.", labelCell)
	gatewayBreaker           = gauge(inGateway, "cellgate_gateway_breaker_state", "State of a replica's breaker: 0 closed, 1 half-open, 2 open. While its replica is frozen it goes from 2 to 1 with each probe, and back: it is not used while this is not 0.", labelCell, labelAddress)
	gatewayBreakerMoves      = counter(inGateway, "cellgate_gateway_breaker_moves_total", "Changes of a replica's breaker, by the state it went to.", labelCell, labelAddress, labelBreaker)
	gatewayGate              = gauge(inGateway, "cellgate_gateway_gate_state", "State of the gate of a cell with a legacy database: 0 not known, 1 LEGACY, 2 SHADOW, 3 NATIVE.", labelCell)
	gatewayGateMoves         = counter(inGateway, "cellgate_gateway_gate_moves_total", "Moves of a cell's gate that this gateway saw, by the state it went to.", labelCell, labelGate)
	gatewayLegacyReads       = counter(inGateway, "cellgate_gateway_legacy_reads_total", "Reads of a cell's legacy databases, and those that failed.", labelCell, labelRead)
	gatewayLegacySeconds     = histogram(inGateway, seconds, "cellgate_gateway_legacy_read_seconds", "How long reads of a cell's legacy databases took, failed ones too.", labelCell)
	gatewayLegacyAge         = reading(inGateway, "cellgate_gateway_legacy_rows_age_seconds", "Age of the rows that this gateway read last of a cell's legacy database. Absent before the first.", labelCell)
	gatewayDecisions         = counter(inGateway, "cellgate_gateway_decisions_total", "Decisions written for later reading, and those dropped because they could not be.", labelDecision)
	gatewayBusRequests       = counter(inGateway, "cellgate_gateway_bus_requests_total", "Messages of Nova's message bus that were answered, or as casts done, by method and by the class of the exception that was answered with. Absent without a bus.", labelBusMethod, labelException)
	gatewayBusSeconds        = histogram(inGateway, seconds, "cellgate_gateway_bus_request_seconds", "From the delivery of a message until the broker has its reply.", labelBusMethod)
	gatewayBusDropped        = counter(inGateway, "cellgate_gateway_bus_dropped_total", "Messages dropped: malformed, no message of oslo.messaging; duplicate, delivered again after its reply was sent; no_caller, answered, but the reply queue is not there; notification, of select_destinations, whose broker is away.", labelDropped)
	gatewayBusRedelivered    = counter(inGateway, "cellgate_gateway_bus_redelivered_total", "Messages that were delivered before, here or to another gateway, and not acknowledged.")
	gatewayBusReconnects     = counter(inGateway, "cellgate_gateway_bus_reconnects_total", "Connections to a broker after the first.")
	gatewayBusConnected      = reading(inGateway, "cellgate_gateway_bus_connected", "1 while requests of the message bus are consumed, else 0. Absent without a bus.")
	gatewayPlacementRequests = counter(inGateway, "cellgate_gateway_placement_requests_total", "Requests to the Placement API that were answered, by method and path and by the status of the answer. Absent without the API.", labelPlacement, labelStatus)
	gatewayPlacementSeconds  = histogram(inGateway, seconds, "cellgate_gateway_placement_request_seconds", "From the header of a request to the Placement API until it was answered.", labelPlacement)
	gatewayPlacementSilent   = counter(inGateway, "cellgate_gateway_placement_silent_cell_total", "Lists, sums and searches of the Placement API that were answered without a cell, since it did not answer.", labelCell)

	cellRequests            = counter(inCell, "cellgate_cell_requests_total", "Calls answered by a cell, by method and outcome.", labelRPC, labelOutcome)
	cellRequestSeconds      = histogram(inCell, seconds, "cellgate_cell_request_seconds", "How long calls took in a cell, whatever their outcome.", labelRPC)
	cellProposeSeconds      = histogram(inCell, seconds, "cellgate_cell_propose_seconds", "How long one query took to compute, without its wait for a processor.")
	cellNearMissesSpared    = counter(inCell, "cellgate_cell_near_misses_spared_total", "Queries answered without the near misses that they asked for, because those had taken a quarter of a processor already.")
	cellCold                = counter(inCell, "cellgate_cell_cold_queries_total", "Queries that came while the replica loaded its table: answered from all hosts that the shard found (all), from some of them (cut), or refused. Absent with an embedded shard.", labelCold)
	cellTransactions        = counter(inCell, "cellgate_cell_transactions_total", "Transactions on the shard, by outcome.", labelOutcome)
	cellTransactionSeconds  = histogram(inCell, seconds, "cellgate_cell_transaction_seconds", "How long a transaction took until it was durable, or failed.")
	cellTransactionOps      = histogram(inCell, sizes, "cellgate_cell_transaction_ops", "Operations committed in one transaction.")
	cellStoreEvents         = tally(inCell, "cellgate_cell_store_events_total", "What a shard in a database went through. Event rerun: transactions run again because another was faster. Event relocked: transactions that had to lock more than their operations name. Event connection_lost: connections that broke. Event commit_unknown: commits whose outcome is unknown. Event commit_resolved: those of them whose outcome was read later. Event statement_timeout: statements that the server ended because they took too long. Event pool_empty: calls that found all connections in use and gave up. Event no_connection_left: connections that the server had no room for. Event refused: connections and statements refused for a reason that trying again does not help.", labelEvent)
	cellStoreConnections    = reading(inCell, "cellgate_cell_store_connections", "Connections of a replica's pool to its shard's database. Absent with an embedded shard.", labelConnection)
	cellStoreConnectionsMax = reading(inCell, "cellgate_cell_store_connections_max", "Most connections that the pool makes (pool_max_conns of cell.store). Absent with an embedded shard.")
	cellStoreWait           = tally(inCell, "cellgate_cell_store_wait_seconds_total", "How long calls have waited for a connection of the pool because none was free. Absent with an embedded shard.")
	cellOperations          = counter(inCell, "cellgate_cell_operations_total", "Operations on the shard. claim with NO_VALID_HOST is a conflict: another claim took the room first.", labelOp, labelOutcome)
	cellQueueOps            = reading(inCell, "cellgate_cell_queue_ops", "Operations that wait for a transaction: urgent ones are claims, the others registrations and lease ends.", labelQueue)
	cellQueueWait           = histogram(inCell, seconds, "cellgate_cell_queue_wait_seconds", "How long a caller's operations waited until a transaction took the first of them.", labelQueue)
	cellQueueRefused        = counter(inCell, "cellgate_cell_queue_refused_total", "Calls refused as OVERLOADED because max_queue operations waited.", labelQueue)
	cellHosts               = reading(inCell, "cellgate_cell_hosts", "Hosts the cell knows.")
	cellHostsUp             = reading(inCell, "cellgate_cell_hosts_up", "Hosts that are enabled, not withheld, and whose agent reported in time; of imported ones whose nova-compute did, while imports are fresh.")
	cellHostsImported       = reading(inCell, "cellgate_cell_hosts_imported", "Hosts of cellgate_cell_hosts that no agent speaks for: an importer wrote them from Nova's tables.")
	cellHostsWithheld       = reading(inCell, "cellgate_cell_hosts_withheld", "Hosts that an operator keeps new instances from: disabled, in maintenance or forced down (cellgate hosts, or Nova's compute service set).")
	cellHostsEmpty          = reading(inCell, "cellgate_cell_hosts_empty", "Hosts that take instances and have none.")
	cellPackedRatio         = reading(inCell, "cellgate_cell_packed_ratio", "Part in use of the capacity of the hosts that are not empty, taken together: 1 is full. Absent for a class that they do not have. Up to 15 s old.", labelPacked)
	cellShapeFits           = reading(inCell, "cellgate_cell_shape_fits", "Instances of a shape that fit besides those there, host by host: only amounts count, on hosts that take instances. Up to 15 s old.", labelShape)
	cellShapePooled         = reading(inCell, "cellgate_cell_shape_fits_pooled", "Instances of a shape that would fit if one host had all that is free on those hosts. 1 - cellgate_cell_shape_fits / this is fragmentation: the part of the free room that instances of this shape cannot use.", labelShape)
	cellStoreAhead          = reading(inCell, "cellgate_cell_store_time_ahead_seconds", "Store time less the machine's clock, as of the last minute: below 0 where the machine's clock is ahead.")
	cellClaims              = reading(inCell, "cellgate_cell_claims", "Live claims.", labelClaim)
	cellLeasesExpired       = counter(inCell, "cellgate_cell_leases_expired_total", "Claims ended because nobody confirmed them in time.")
	cellVerdicts            = counter(inCell, "cellgate_cell_verdicts_total", "Verdicts of hosts on claims that were offered to them; ok, or why they were rejected.", labelVerify, labelVerdict)
	cellVerdictWait         = histogram(inCell, seconds, "cellgate_cell_verdict_wait_seconds", "How long claims waited for their host's verdict (verify_mode sync). End arrived: in time. End late: not in time.", labelWaitEnd)
	cellOffersUnanswered    = counter(inCell, "cellgate_cell_offers_unanswered_total", "Claims offered to a host's agent that it gave no verdict on within 5 s.")
	cellAdopted             = counter(inCell, "cellgate_cell_instances_adopted_total", "Instances that hosts reported without a claim and that were given one.")
	cellElsewhere           = counter(inCell, "cellgate_cell_instances_claimed_elsewhere_total", "Instances that a host reported while another host has their claim; counted at each such report.")
	cellOvercommitted       = counter(inCell, "cellgate_cell_overcommitted_total", "Resource classes of providers found used beyond capacity; counted at each report that shows it.")
	cellJournalAge          = reading(inCell, "cellgate_cell_journal_read_age_seconds", "Time since the journal was last read to its end: how late other replicas' changes may show.")
	cellStreams             = gauge(inCell, "cellgate_cell_agent_streams", "Streams of agents that are open.")
	cellStates              = counter(inCell, "cellgate_cell_host_states_total", "Full states that agents sent, accepted (OK) or refused.", labelOutcome)
	cellGate                = reading(inCell, "cellgate_cell_gate_state", "Where the cell's gate is: 1 LEGACY, 2 SHADOW, 3 NATIVE. Absent for a cell without a gate.")
	cellGateEpoch           = reading(inCell, "cellgate_cell_gate_epoch", "Counts the moves of the gate. Absent for a cell without a gate.")
	cellGateLagging         = reading(inCell, "cellgate_cell_gate_lagging_hosts", "Hosts whose nova-compute or agent keeps the gate from opening, by the last answer this replica has. Absent for a cell without a gate.")
	cellGateReadingLag      = reading(inCell, "cellgate_cell_gate_reading_lag_seconds", "By how much the oldest reading of Nova's tables that a gateway reports to this replica is behind the newest; up to the time between two heartbeats says nothing. Absent for a cell without a gate.")
	cellGateRowsAge         = reading(inCell, "cellgate_cell_gate_rows_age_seconds", "How long ago all that Nova's tables say was last in the shard. Above 30 s a cell whose gate is not NATIVE is unavailable, and hosts without an agent count as down. Absent before the first import.")
	cellGateMoves           = counter(inCell, "cellgate_cell_gate_moves_total", "Moves of the gate that this replica made, by where to.", labelGate)
	cellFindings            = reading(inCell, "cellgate_cell_findings", "What the shard, this replica's table and the hosts' reports do not agree on for longer than the grace, and nothing has put right.", labelFinding)
	cellRepairs             = counter(inCell, "cellgate_cell_repairs_total", "Repairs of findings that this replica made, was refused, or failed with.", labelFinding, labelRepair)
	cellHostsCompared       = reading(inCell, "cellgate_cell_hosts_compared", "Hosts whose reports the last comparison covered: their agents report and know their instances.")
	cellReconcileAge        = reading(inCell, "cellgate_cell_reconcile_age_seconds", "Time since shard, table and hosts were last compared as a whole, or since the replica began to.")

	agentConnected    = reading(inAgent, "cellgate_agent_streams_accepted", "Streams, one for each host and replica, whose newest state was accepted.", labelCell)
	agentReports      = counter(inAgent, "cellgate_agent_reports_total", "Full states answered by the cell, accepted (OK) or refused.", labelCell, labelOutcome)
	agentReconnects   = counter(inAgent, "cellgate_agent_reconnects_total", "Streams that ended and were opened again.", labelCell)
	agentReadFailures = counter(inAgent, "cellgate_agent_read_failures_total", "Times that an agent could not read its host: what it last reported stays. 0 for simulated hosts.", labelCell)
	agentReadAge      = reading(inAgent, "cellgate_agent_read_age_seconds", "Time since an agent last read its host well. Absent for simulated hosts.", labelCell)

	buildInfo      = gauge(everyProcess, "cellgate_build_info", "Always 1; the labels say which build runs.", labelVersion, labelRevision)
	callersRefused = counter(everyProcess, "cellgate_callers_refused_total", "Callers refused before anything of their call was read, REST, gRPC and agents, by what they called: without a credential that is known, or without the role. TLS handshakes that failed are one method. Absent until there is one.", labelDoor, labelRefusal)
	certificateEnd = reading(everyProcess, "cellgate_certificate_end_time_seconds", "When the first certificate of a file in use ends, in Unix time: the server's, the CAs of its callers (callers_ca), the client's, the CAs of the servers it calls (servers_ca). Absent without the file.", labelFile)
	ingressBytes   = reading(everyProcess, "cellgate_ingress_bytes", "Bytes of requests above 64 KiB that are being received or decoded now. Absent without a server.")
	ingressRefused = counter(everyProcess, "cellgate_ingress_refused_total", "Requests and connections refused because a limit was reached. Of bytes: those of all, and of one caller (caller_bytes). Of time: large_requests that waited too long to be decoded. Of connections: those of all, and of one address (address_connections). Of calls: open_calls, which need no credential, and caller_calls of one agent's credential. Absent without a server.", labelLimit)
)

// Ops lists the operations on a shard: the names of the fields of shard.Op, without Set.
func Ops() []string {
	return []string{
		"put_host", "claim", "confirm", "release", "expire", "pin", "unpin", "swap", "transfer", "take_over", "move_gate", "put_facts",
		"record_verdict", "admin_state", "end_maintenance", "nova_state", "silent", "remove_host", "write_placement", "put_name", "delete_name", "audit",
	}
}

// FindingKinds lists the kinds of findings of a cell, as in cellgate.v1.Finding.
func FindingKinds() []string {
	return []string{
		"orphaned_claim", "unclaimed_instance", "claimed_elsewhere", "doubled_claim", "unfinished_move",
		"overcommitted", "amounts_differ", "usage_differs", "host_differs", "state_refused", "nova_differs",
	}
}
