// Package placement serves the Placement API, microversions 1.0 to 1.39, from the cells' shards.
//
// nova-compute, nova-conductor, nova-api, Neutron and Cyborg write provider trees and allocations here as they would
// to placement-api: same paths, status codes, headers and error texts. There is no second store: a Backend reads and
// writes the cells' own data.
//
// The package ranks nothing (schedule does), and it knows cells only by name.
package placement
