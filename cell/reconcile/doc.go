// Package reconcile compares a cell's claims with what hosts report, and usage with claims.
//
//	reconcile.go  a look at all hosts: conditions become findings after a grace
//	findings.go   what is listed; findings_compare.go what disagrees on a host, a pure function
//	audit.go      what is in use of some hosts is compared with their claims in the shard
//	repair.go     what is put right
//
// A claim is released only when its host reports that the instance is gone, and the shard checks
// that this is still the host's last report.
package reconcile
