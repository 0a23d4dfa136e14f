package telemetry

// SpanName describes a span.
type SpanName struct {
	Name string
	// Of is the kind of process that records the span; Help says what the span covers.
	Of   string
	Help string
	// Attributes are those that the span may have, besides AttrError.
	Attributes []Attribute
}

// Attribute describes an attribute of a span.
type Attribute struct{ Name, Help string }

// spans and attributes are those created below, in the order of the page.
var (
	spans      []SpanName
	attributes []Attribute
)

func newSpan(name, of, help string, attrs ...Attribute) SpanName {
	s := SpanName{Name: name, Of: of, Help: help, Attributes: attrs}
	spans = append(spans, s)
	return s
}

func newAttribute(name, help string) Attribute {
	a := Attribute{Name: name, Help: help}
	attributes = append(attributes, a)
	return a
}

// Spans lists all spans, in the order of the page.
func Spans() []SpanName { return spans }

// Attributes lists all attributes, in the order of the page.
func Attributes() []Attribute { return attributes }

// The attributes.
var (
	AttrCell     = newAttribute("cellgate.cell", "the cell's name")
	AttrReplica  = newAttribute("cellgate.replica", "the replica's name")
	AttrRPC      = newAttribute("rpc.method", "the method's full name")
	AttrOutcome  = newAttribute("cellgate.outcome", "OK, or the kind of the error")
	AttrDecision = newAttribute("cellgate.decision_id", "the decision's id, as in the answer")
	AttrRound    = newAttribute("cellgate.round", "number of the round, from 1")
	AttrRounds   = newAttribute("cellgate.rounds", "rounds the merge needed")
	AttrExact    = newAttribute("cellgate.exact", "the order is proven to be a single scheduler's")
	AttrCount    = newAttribute("cellgate.instances", "instances asked for")
	AttrHosts    = newAttribute("cellgate.hosts", "hosts looked at")
	AttrPassed   = newAttribute("cellgate.passed", "hosts that passed every filter")
	AttrVersion  = newAttribute("cellgate.table_version", "version of the host table that answered")
	AttrBatch    = newAttribute("cellgate.batch_size", "queries or operations that went together, other requests' too")
	AttrOps      = newAttribute("cellgate.ops", "operations of this request")
	AttrError    = newAttribute("error.message", "why it failed: the message that a caller gets")
)

// The spans. The span of a request, or of a call to a cell, has the RPC's full name.
var (
	SpanRequest   = newSpan("<package>.<Service>/<Method>", inGateway, "A request, from its arrival to its answer.", AttrRPC, AttrOutcome, AttrCount, AttrDecision, AttrExact)
	SpanAdmit     = newSpan("gateway.admit", inGateway, "Bounds the deadline; sheds.")
	SpanTranslate = newSpan("gateway.translate", inGateway, "Reads the request into the core's form.")
	SpanRoute     = newSpan("gateway.route", inGateway, "Leaves out the cells that cannot hold it.")
	SpanMerge     = newSpan("gateway.merge", inGateway, "One merge: rounds until the order is proven.", AttrRounds, AttrExact)
	SpanRound     = newSpan("gateway.propose", inGateway, "One round: all cells at once.", AttrRound)
	SpanAsk       = newSpan("gateway.propose_cell", inGateway, "One cell's part of a round.", AttrCell)
	SpanBatchWait = newSpan("gateway.batch_wait", inGateway, "The query waits because calls to its cell are in flight.")
	SpanCall      = newSpan("gateway.call", inGateway, "The ProposeBatch call that carries the query.", AttrBatch)
	SpanPin       = newSpan("gateway.pin", inGateway, "Pins a group with hard affinity to its host.", AttrCell)
	SpanClaim     = newSpan("gateway.claim", inGateway, "Claims the picks, all cells at once.")
	SpanClaimCell = newSpan("gateway.claim_cell", inGateway, "One cell's part of the claims.", AttrCell, AttrOps)
	SpanAnswer    = newSpan("gateway.answer", inGateway, "Builds the answer.")
	SpanRelease   = newSpan("gateway.release", inGateway, "Gives claims back; may outlive the request.", AttrCell, AttrOps)

	SpanServe       = newSpan("cellgate.cell.v1.CellScheduler/<Method>", inCell, "A call for one request: claims, reads. ProposeBatch has none: its queries are of many requests.", AttrRPC, AttrOutcome, AttrCell, AttrReplica)
	SpanPropose     = newSpan("cell.propose", inCell, "One query of a ProposeBatch.", AttrCell, AttrReplica, AttrHosts, AttrPassed, AttrVersion)
	SpanSearch      = newSpan("cell.search", inCell, "The shard finds hosts for the query, while the table is loaded.")
	SpanSlot        = newSpan("cell.propose_wait", inCell, "The query waits for a processor.")
	SpanQueue       = newSpan("cell.queue", inCell, "The operations wait for the lane.", AttrOps)
	SpanTransaction = newSpan("shard.transaction", inCell, "The transaction, until it is durable.", AttrBatch)
	SpanPublish     = newSpan("cell.publish", inCell, "Until the host table shows the changes.")
)
