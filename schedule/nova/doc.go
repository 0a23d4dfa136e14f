// Package nova reads Nova's forms: the RequestSpec versioned object becomes a
// schedule.Request, database rows become a schedule.Host.
//
// It is not a scheduler: it decides nothing about hosts. What it does decide is
// what of a request can be honoured. A key that asks for something the core does
// not do yet is refused by name; a key that bears on no choice of host is read
// over or reported; nothing is dropped in silence. Which is which stands in one
// place, support.go.
//
// Two doors lead to the same code: FromPrimitive for the versioned object, and
// Compile for a Spec that a caller filled from its own form.
//
// What Nova asks Placement for of a flavor and an image is resourceRequest's; its
// request filters are prefilter_*.go, a file each. docs/reference/nova-placement.md has both.
//
// Field paths leave out the "nova_object.data" levels:
// nova_request_spec.flavor.extra_specs["hw:numa_nodes"] is the extra spec of the
// flavor object inside the RequestSpec object, and
// nova_request_spec.flavor["nova_object.version"] is that object's version.
//
// Tests that hold this: TestGolden and TestResourceRequestIsNovas (what Nova 26.2.2
// answered), FuzzFromPrimitive (no input panics), FuzzCompile.
package nova
