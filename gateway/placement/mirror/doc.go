// Package mirror keeps a Target equal to a Placement that others write: cells to a running Placement, or, on the way
// back, that Placement to the cells.
//
//	Client     reads a Placement through its API
//	Remote     writes one through its API; a placement.Backend is the other Target
//	Mirror     copies one provider or consumer, or passes over everything and says what differed
//	Tap        serves the Placement API from one side, and lets the mirror copy what was written
//
// One thing is copied by reading the target, then the source, then writing with the generations that were read of the
// target. A write that another mirror made in between is thereby refused, and the copy starts again: what a target has
// never gets older, whatever number of gateways copy. Copying again is harmless.
//
// What it is not: no part of the path of a request to the cells. The source answers its callers before anything is
// copied.
package mirror
