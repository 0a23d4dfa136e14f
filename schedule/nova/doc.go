// Package nova reads Nova's forms: the RequestSpec versioned object becomes a schedule.Request, database rows become
// a schedule.Host.
//
// It decides nothing about hosts, only which parts of a request can be honoured. If a key asks for something that the
// core does not do yet, the request is refused, and the error names the key. A key that does not affect the choice of
// host is accepted or reported as ignored. Nothing is dropped silently. The table of all keys is in support.go.
//
// Two functions lead to the same code: FromPrimitive for the versioned object, and Compile for a Spec that a caller
// filled from its own form.
//
// resourceRequest is what Nova asks Placement for, by flavor and image; Nova's request filters are in prefilter.go and
// prefilter_networks.go. docs/reference/nova-placement.md describes both.
//
// Field paths leave out the "nova_object.data" levels: nova_request_spec.flavor.extra_specs["hw:numa_nodes"] is the
// extra spec of the flavor object inside the RequestSpec object, and nova_request_spec.flavor["nova_object.version"]
// is that object's version.
//
// Tests: TestGolden and TestResourceRequestIsNovas compare with answers of Nova 26.2.2. FuzzFromPrimitive checks that
// no input panics. FuzzCompile checks that a Spec is refused or gives a valid request.
package nova
