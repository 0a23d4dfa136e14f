// Package storebench measures claims on a store. Callers have one claim under way each. They call
// schedulers, which have their own lane and view, like the replicas of a cell. Jay Pipes measured the
// same in 2016 for Nova's schedulers.
//
// It knows only the contract of a store; its caller opens the stores.
package storebench
