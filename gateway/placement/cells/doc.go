// Package cells is the Backend of the Placement API over the cells' replicas (docs/adr/0029).
//
//	backend.go   which cell has a provider; what the API asks all cells, or one
//	read.go      providers, consumers, usages, candidates and names, joined
//	write.go     one cell's write as one transaction; allocations of several cells one after the other
//	wire.go      the API's forms as messages, and back
//
// A read that several cells have to answer fails when one of them does not (CELL_UNAVAILABLE): it never gives half. A
// provider that is known needs its own cell alone. The known cells of providers are a cache: a provider that is not
// where it was is looked for in all cells.
package cells
