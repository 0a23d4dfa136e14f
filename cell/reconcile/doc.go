// Package reconcile compares a cell's shard, this replica's table and what hosts report.
//
//	reconcile.go  a look at all hosts: conditions become findings after a grace
//	findings.go   what is listed; findings_compare.go what disagrees on a host, a pure function
//	audit.go      some hosts' rows are read from the shard; differs.go compares them with the table
//	repair.go     what is put right
//
// A claim is released only when its host reports that the instance is gone, and the shard checks
// that this is still the host's last report.
package reconcile
