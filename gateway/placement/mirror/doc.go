// Package mirror makes one Placement, the target, equal to another one, the source, through their APIs. One of them is
// OpenStack's, the other one the Placement API of a gateway.
//
//	Client  reads and writes a Placement through its API
//	Mirror  copies one provider or consumer, or compares and copies everything
//	Tap     serves the source's API, and has the mirror copy what was written
//
// A copy reads the target, then the source, and writes with the generations read of the target. Then it reads the
// source once more: if the source has changed, the copy starts again. Several taps copy at once, and some changes
// have no generation: a provider's name and parent, creations and deletions. So an older state can be written after a
// newer one. The copy that writes last reads the source afterwards, finds the difference, and writes again. Repeated
// copies are harmless.
//
// The mirror is no part of the path of a request: the source answers its callers before anything is copied.
package mirror
