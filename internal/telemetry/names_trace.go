package telemetry

// SpanName describes a span.
type SpanName struct {
	Name string
	// Of is the process that records it, Help what it covers.
	Of   string
	Help string
	// Attributes are those it may have besides AttrError.
	Attributes []Attribute
}

// Attribute describes an attribute of a span.
type Attribute struct{ Name, Help string }

// The attributes.
var (
	AttrCell     = Attribute{"cellgate.cell", "the cell's name"}
	AttrReplica  = Attribute{"cellgate.replica", "the replica's name"}
	AttrRPC      = Attribute{"rpc.method", "the method's full name"}
	AttrOutcome  = Attribute{"cellgate.outcome", "OK, or the kind of the error"}
	AttrDecision = Attribute{"cellgate.decision_id", "the decision's id, as in the answer"}
	AttrRound    = Attribute{"cellgate.round", "number of the round, from 1"}
	AttrRounds   = Attribute{"cellgate.rounds", "rounds the merge needed"}
	AttrExact    = Attribute{"cellgate.exact", "the order is proven to be a single scheduler's"}
	AttrCount    = Attribute{"cellgate.instances", "instances asked for"}
	AttrHosts    = Attribute{"cellgate.hosts", "hosts looked at"}
	AttrPassed   = Attribute{"cellgate.passed", "hosts that passed every filter"}
	AttrVersion  = Attribute{"cellgate.table_version", "version of the host table that answered"}
	AttrBatch    = Attribute{"cellgate.batch_size", "queries or operations that went together, other requests' too"}
	AttrOps      = Attribute{"cellgate.ops", "operations of this request"}
	AttrError    = Attribute{"error.message", "why it failed, in the words that a caller sees"}
)

// The spans. That of a request, or of a call to a cell, has the RPC's full name.
var (
	SpanRequest   = SpanName{"<package>.<Service>/<Method>", inGateway, "A request, from the door to its answer.", []Attribute{AttrRPC, AttrOutcome, AttrCount, AttrDecision, AttrExact}}
	SpanAdmit     = SpanName{"gateway.admit", inGateway, "Bounds the deadline; sheds.", nil}
	SpanTranslate = SpanName{"gateway.translate", inGateway, "Reads the request into the core's form.", nil}
	SpanRoute     = SpanName{"gateway.route", inGateway, "Leaves out the cells that cannot hold it.", nil}
	SpanMerge     = SpanName{"gateway.merge", inGateway, "One merge: rounds until the order is proven.", []Attribute{AttrRounds, AttrExact}}
	SpanRound     = SpanName{"gateway.propose", inGateway, "One round: all cells at once.", []Attribute{AttrRound}}
	SpanAsk       = SpanName{"gateway.propose_cell", inGateway, "One cell's part of a round.", []Attribute{AttrCell}}
	SpanBatchWait = SpanName{"gateway.batch_wait", inGateway, "The query waits because calls to its cell are in flight.", nil}
	SpanCall      = SpanName{"gateway.call", inGateway, "The ProposeBatch call that carries the query.", []Attribute{AttrBatch}}
	SpanPin       = SpanName{"gateway.pin", inGateway, "Pins a group with hard affinity to its host.", []Attribute{AttrCell}}
	SpanClaim     = SpanName{"gateway.claim", inGateway, "Claims the picks, all cells at once.", nil}
	SpanClaimCell = SpanName{"gateway.claim_cell", inGateway, "One cell's part of the claims.", []Attribute{AttrCell, AttrOps}}
	SpanAnswer    = SpanName{"gateway.answer", inGateway, "Builds the answer.", nil}
	SpanRelease   = SpanName{"gateway.release", inGateway, "Gives claims back; may outlive the request.", []Attribute{AttrCell, AttrOps}}

	SpanServe       = SpanName{"cellgate.cell.v1.CellScheduler/<Method>", inCell, "A call for one request: claims, reads. ProposeBatch has none: its queries are of many requests.", []Attribute{AttrRPC, AttrOutcome, AttrCell, AttrReplica}}
	SpanPropose     = SpanName{"cell.propose", inCell, "One query of a ProposeBatch.", []Attribute{AttrCell, AttrReplica, AttrHosts, AttrPassed, AttrVersion}}
	SpanSearch      = SpanName{"cell.search", inCell, "The shard finds hosts for the query, while the table is loaded.", nil}
	SpanSlot        = SpanName{"cell.propose_wait", inCell, "The query waits for a processor.", nil}
	SpanQueue       = SpanName{"cell.queue", inCell, "The operations wait for the lane.", []Attribute{AttrOps}}
	SpanTransaction = SpanName{"shard.transaction", inCell, "The transaction, until it is durable.", []Attribute{AttrBatch}}
	SpanPublish     = SpanName{"cell.publish", inCell, "Until the host table shows the changes.", nil}
)

// Spans lists all spans, in the order of the page.
func Spans() []SpanName {
	return []SpanName{
		SpanRequest, SpanAdmit, SpanTranslate, SpanRoute, SpanMerge, SpanRound, SpanAsk, SpanBatchWait, SpanCall,
		SpanPin, SpanClaim, SpanClaimCell, SpanAnswer, SpanRelease,
		SpanServe, SpanPropose, SpanSearch, SpanSlot, SpanQueue, SpanTransaction, SpanPublish,
	}
}

// Attributes lists all attributes, in the order of the page.
func Attributes() []Attribute {
	return []Attribute{
		AttrRPC, AttrOutcome, AttrCell, AttrReplica, AttrDecision, AttrCount, AttrExact, AttrRound, AttrRounds,
		AttrHosts, AttrPassed, AttrVersion, AttrBatch, AttrOps, AttrError,
	}
}
