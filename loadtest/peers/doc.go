// Package peers measures claims a second beside cellgate's peers: OpenStack's Placement, and the
// filters and weighers of nova-scheduler. make peers runs it; it has tests only.
//
// A claim is the same for both: room for 2 VCPUs, 4 GiB of memory and 40 GB of disk on one of the
// same hosts, durable when the answer comes. The same callers make it, each waits for its answer,
// and one system runs after the other, so that neither takes the other's processor time.
//
//   - Placement 8 (Debian) runs under uwsgi with two processes over MariaDB, as deploy/openstack
//     configures it, but without Keystone: no token is validated. A claim is what Nova does: ask for
//     allocation candidates, choose a host by the order, write the allocation.
//   - cellgate is `cellgate dev` with one cell and an embedded shard. A claim is one
//     SelectDestinations over gRPC; the process simulates the hosts' agents too.
//   - Nova's filters choose a host from states in memory, without a claim. They are timed alone, in
//     CPU time a selection.
package peers
