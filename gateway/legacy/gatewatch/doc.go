// Package gatewatch does a gateway's part for a cell under upgrade from Nova's own tables (docs/adr/0016).
//
// A Gate reads the tables (package novadb) and reports to the cell which services they list. When the cell asks for
// it, the Gate has an importer write the hosts of the rows into the cell's shard. The cell moves its gate. No request
// of a caller passes through here: the cell answers in every state of its gate.
package gatewatch
