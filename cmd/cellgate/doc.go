// Command cellgate is every process of cellgate and their command line client:
// one file a subcommand, each of them flags → configuration → run. Only this
// package chooses stores and wires gateways, cells and agents together.
//
// Exit status: 0 done, 1 refused by the system (no valid host), 2 wrong usage,
// 3 no answer from the gateway.
package main
