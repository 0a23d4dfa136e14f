// Package capacity answers how many instances would fit. It places instances on copies of the cells' tables
// (cellclient.Trial), by the rules of a selection, and claims nothing.
//
//	service.go  a question: shapes, cells, changes
//	each.go     each shape alone: every cell counts its own instances
//	mix.go      shapes in turn, ranked over all cells by merge.Plan
//	drain.go    the instances of hosts to empty, one after the other
//	evacuee.go  an instance's needs as its claim knows them, and the order of a drain
//
// Guarantees: the number equals what a scheduler over all hosts places one by one (TestEstimate_RandomFleets_…), and
// each move of a plan succeeds as a real move (TestPlanDrain_RandomFleets_…).
package capacity
