// Package comparison has the seed's comparison as a test: 1,000 hosts, requests
// racing with state changes, and three ways for a scheduler to know its hosts.
//
//   - legacy: every request reads all rows of compute_nodes (Nova's FilterScheduler);
//   - caching: the rows are read every 60 s and consumed in memory in between (Nova's
//     CachingScheduler);
//   - cellgate: agents report, claims are made in the shard.
//
// The hosts are the same for all: a compute takes an instance when it fits into what
// the compute itself knows, and refuses it otherwise, which is a wrong decision; the
// instance then goes elsewhere, three attempts at most, as in Nova. The first two ways
// rank with the code that cellgate ranks with, over a real MariaDB of Nova's schema:
// what differs is how a scheduler comes to know its hosts, not the language.
//
// make bench-seed runs it at length and prints the table; make test a short one.
package comparison
