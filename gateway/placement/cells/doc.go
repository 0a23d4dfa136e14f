// Package cells is the Backend of the Placement API over the cells' replicas (docs/adr/0029).
//
//	backend.go    which cell has a provider; calls to all cells, or one
//	consumers.go  what consumers hold over the cells, and when that is complete
//	locks.go      this gateway's order of writes that several cells decide
//	read.go       providers, consumers, usages and candidates, joined
//	write.go      one cell's write as one transaction; allocations of several cells one after the other
//	names.go      custom names, which all cells have
//	wire.go       the API's forms as messages, and back
//
// A read of a named provider or consumer fails if a cell that may have it does not answer
// (CELL_UNAVAILABLE). Lists of providers, usages and candidates leave silent cells out and
// name them, and fail only if no cell answers.
//
// A known provider needs only its own cell. The known cells of providers are a cache: a
// provider that is not in its known cell is looked for in all cells.
package cells
