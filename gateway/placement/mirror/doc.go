// Package mirror keeps a Target equal to a Placement that others write. It copies from the cells to a running
// Placement, or, on the way back, from that Placement to the cells.
//
//	Client     reads a Placement through its API
//	Remote     writes one through its API; a placement.Backend is the other Target
//	Mirror     copies one provider or consumer, or compares and copies everything
//	Tap        serves the Placement API from the source, and has the mirror copy what was written
//
// A copy reads the target, then the source, and writes with the generations read of the target. Then it reads the
// source once more: if the source has changed, the copy starts again. Several gateways copy at once, and some changes
// have no generation: a provider's name and parent, creations and deletions. So an older state can be written after a
// newer one. The copy that writes last reads the source afterwards, finds the difference, and writes again. Repeated
// copies are harmless.
//
// The mirror is no part of the path of a request to the cells: the source answers its callers before anything is
// copied.
package mirror
