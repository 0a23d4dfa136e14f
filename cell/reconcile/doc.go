// Package reconcile compares a cell's claims with what hosts report, and usage with claims.
//
//	reconcile.go  a round over all hosts: conditions become findings after a grace
//	findings.go   the list of findings; findings_compare.go the mismatches of a host, a pure function
//	audit.go      compares the usage of some hosts with their claims in the shard
//	repair.go     repairs
//
// A claim is released only if its host reports that the instance is gone, and the shard checks that
// this is still the host's last report.
package reconcile
