// Package agent is the host side of a cell: it reports to the cell's scheduler replicas what a host has
// and that it is up. A cell learns of a host in no other way.
//
// A Host is the state of one host in one agent incarnation. A Reporter is its stream to one replica. A
// Source provides hosts and their changes: package hostprobe reads the machine that it runs on; a
// Simulation makes up many hosts, which depend on its seed alone (sim_*.go, and the table in
// samples/README.md for which the bundled requests are written). A Fleet reports the hosts of a source
// over a few shared connections.
//
// A state that a replica has not accepted is sent again. After every reconnect the whole state is sent
// until the replica accepts it, and then the changes (delta.go). A host asks one of its cell's replicas
// to write its states (streams.go).
//
// Claims are the host's own ledger of the resources that are taken (claims.go, ledger.go). It judges
// the claims that the cell offers, and serves the operations on the host that take them up. The package
// never imports a store, and talks to a cell only through HostReports.
package agent
