// Package agent is the host side of a cell: it tells the cell's scheduler
// replicas what a host has and that it lives. There is no other way by which a
// cell learns of a host.
//
// A Host is one host's own truth in one agent incarnation; a Reporter is its stream to
// one replica. A Source says what its hosts have and when that changed: package
// hostprobe reads the machine it runs on; a Simulation makes many hosts up, which
// follow from its seed alone (sim_*.go, and the table in samples/README.md that the
// bundled requests are written for). A Fleet reports the hosts of a source over a
// few shared connections.
//
// What a replica has not accepted is sent again: after every reconnect the whole
// state, until Accepted; then what changed (delta.go). Of its cell's replicas a host
// asks one to write its states (streams.go).
//
// Claims are the host's own book of what is taken of it (claims.go, ledger.go): it
// judges the claims that the cell offers, and takes the operations on the host that
// take them up. The package never imports a store and never talks to a
// cell except through HostReports.
package agent
