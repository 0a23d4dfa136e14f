// Package bus serves Nova's topic `scheduler` on RabbitMQ: it is an RPC server of
// oslo.messaging that stands where nova-scheduler stood. Requests become calls of the
// gateway's own gRPC server, as REST requests do.
//
//	envelope.go      messages as oslo.messaging writes them: requests, replies
//	failure.go       exceptions as oslo.messaging serializes them
//	transporturl.go  transport_url
//	topology.go      exchanges and queues, declared as nova-scheduler declares them
//	spec.go          the arguments of select_destinations as a gateway's request
//	legacyspec.go    the dictionaries of RPC 4.0 to 4.2 as a RequestSpec
//	selection.go     the gateway's answer as Nova's Selection objects
//	selects.go       select_destinations: attempts, moves, exceptions
//	allocations.go   the allocations of an answer in Placement
//	notifications.go  scheduler.select_destinations.start and .end
//	casts.go         cells' own buses: what computes cast there has Nova's tables read
//	methods.go       which methods and versions there are
//	session.go       one connection: consume, answer, acknowledge
//	publisher.go     replies, confirmed by the broker
//	bus.go           connections one after the other; health; draining
//
// A request is acknowledged after the broker has confirmed its reply. So a broker
// delivers the requests of a gateway that died to another one, whose request id is the
// same: it finds the claims that the first one made (docs/adr/0028).
package bus
