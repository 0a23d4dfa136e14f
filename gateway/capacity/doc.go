// Package capacity answers what would fit. It places instances on copies of the cells' tables (cellclient.Trial), by the
// rules of a selection, and claims nothing.
//
//	service.go  a question: shapes, cells, changes
//	each.go     each shape alone: every cell counts its own
//	mix.go      shapes in turn, ranked over all cells by schedule.Plan
//
// What holds: the number is what a scheduler over all hosts places one by one (TestEstimate_RandomFleets_…).
package capacity
