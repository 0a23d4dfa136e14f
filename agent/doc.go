// Package agent is the host side of a cell: it tells the cell's scheduler
// replicas what a host has and that it lives. There is no other way by which a
// cell learns of a host.
//
// A Host is one host's own truth in one agent life; a Reporter is its stream to
// one replica. A Fleet simulates many hosts over a few shared connections; what
// the hosts look like follows from its seed alone (sim_*.go, and the table in
// samples/README.md that the bundled requests are written for).
//
// What a replica has not accepted is sent again: after every reconnect the whole
// state, until Accepted. The package never imports a store and never talks to a
// cell except through HostReports.
package agent
