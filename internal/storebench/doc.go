// Package storebench measures claims on a store: callers that each have one claim under way,
// at schedulers that each have a lane and a view of their own, as the replicas of a cell have.
// Jay Pipes measured the same in 2016, of Nova's schedulers.
//
// It knows the contract of a store only. Who calls it opens the stores.
package storebench
