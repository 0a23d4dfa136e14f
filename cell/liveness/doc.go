// Package liveness knows when each host of a cell was last seen, and so which hosts are down.
//
//	liveness.go  Tracker: the last sign of each host, and which are silent for too long
//	marks.go     the marks in the shard that say which hosts are silent (docs/adr/0020)
//	outages.go   the log's lines about hosts that went down or came back
package liveness
