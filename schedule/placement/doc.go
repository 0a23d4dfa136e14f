// Package placement finds the allocation candidates among a cell's resource providers, as GET /allocation_candidates
// of Placement 8.0.0 does: groups with and without a suffix, traits, aggregates, sharing providers, subtrees.
//
// A Tree is a root provider and everything below it. It never changes, so a caller can keep it until the row of the
// root in its store changes. Candidates searches all trees of a cell at once, because providers share resources
// across trees.
//
// Where Placement 8.0.0 has no defined answer, this package follows Placement's rules. It loses no anchor of a
// request that sharing providers serve alone. It adds up the amounts of several groups separately for each candidate.
// It finds sharing providers below a root, where Placement fails. testdata/placement_answers.py names the places in
// Placement's code.
//
// The package is pure: it imports only the standard library, and has no I/O, clock, randomness or goroutine. Callers
// must check before whether classes and traits exist.
package placement
