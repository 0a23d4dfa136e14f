// Package placement finds the allocation candidates of a cell's resource providers, as GET /allocation_candidates of
// Placement 8.0.0 does: groups with and without a suffix, traits, aggregates, sharing providers, subtrees.
//
// A Tree is a root provider and what is below it; it never changes, so that the caller can keep one for a row of its
// store until the row changes. Candidates asks all trees of a cell at once, because providers share resources across
// trees.
//
// Where Placement 8.0.0 itself has no defined answer, this package has the one that its rules give: it loses no anchor of
// what sharing providers serve alone, adds up the amounts of several groups for each candidate apart, and finds sharing
// providers below a root, at which Placement fails (testdata/placement_answers.py has the places in its code).
//
// It is pure, like package schedule: the standard library only, no I/O, clock, randomness or goroutine. It does not
// know names: whether a class or trait exists is the caller's to check before.
package placement
