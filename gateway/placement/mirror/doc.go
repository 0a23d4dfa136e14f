// Package mirror keeps a Target equal to a Placement that others write: cells to a running Placement, or, on the way
// back, that Placement to the cells.
//
//	Client     reads a Placement through its API
//	Remote     writes one through its API; a placement.Backend is the other Target
//	Mirror     copies one provider or consumer, or passes over everything and says what differed
//	Tap        serves the Placement API from one side, and lets the mirror copy what was written
//
// One thing is copied by reading the target, then the source, writing with the generations that were read of the target,
// and reading the source once more: if it has changed, the copy starts again. Several gateways copy at once, and not all
// that a write changes has a generation (a provider's name and parent, what is made or deleted), so an older state can be
// written after a newer one. Whoever writes it last reads the source after that, and writes again. Copying again is harmless.
//
// What it is not: no part of the path of a request to the cells. The source answers its callers before anything is
// copied.
package mirror
