// Package bus serves Nova's topic `scheduler` on RabbitMQ: it is an oslo.messaging RPC server
// in the place of nova-scheduler. Like REST requests, its requests become calls of the
// gateway's own gRPC server.
//
//	envelope.go       messages in oslo.messaging's form: requests, replies
//	failure.go        exceptions in oslo.messaging's form
//	transporturl.go   transport_url
//	topology.go       exchanges and queues, declared as nova-scheduler declares them
//	spec.go           the arguments of select_destinations as a gateway's request
//	legacyspec.go     the dictionaries of RPC 4.0 to 4.2 as a RequestSpec
//	selection.go      the gateway's answer as Nova's Selection objects
//	selects.go        select_destinations: attempts, moves, exceptions
//	allocations.go    the allocations of an answer in Placement
//	notifications.go  scheduler.select_destinations.start and .end
//	casts.go          cells' own buses: a cast by a compute starts a read of Nova's tables
//	methods.go        the methods and their versions
//	session.go        one connection: consume, answer, acknowledge
//	publisher.go      replies, confirmed by the broker
//	tls.go            verification of a broker's certificate
//	bus.go            connections one after the other; health; draining
//
// A request is acknowledged after the broker has confirmed its reply. So if a gateway dies,
// the broker delivers its requests to another one. Their request ids are the same, so that
// gateway finds the claims that the first one made (docs/adr/0028).
package bus
