// Package placement finds the allocation candidates of a cell's resource providers, as GET /allocation_candidates of
// Placement 8.0.0 does: groups with and without a suffix, traits, aggregates, sharing providers, subtrees.
//
// A Tree is a root provider and what is below it; it never changes, so that the caller can keep one for a row of its
// store until the row changes. Candidates asks all trees of a cell at once, because providers share resources across
// trees.
//
// It is pure, like package schedule: the standard library only, no I/O, clock, randomness or goroutine. It does not
// know names: whether a class or trait exists is the caller's to check before.
package placement
