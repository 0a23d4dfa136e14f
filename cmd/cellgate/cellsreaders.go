package main

import (
	"fmt"
	"io"
	"time"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// readersBehind are the gateways that read a copy of Nova's database that is behind.
func readersBehind(g *cellgatev1.Gate) (list []*cellgatev1.GateReader) {
	for _, r := range g.GetReaders() {
		if r.GetBehindSince() != nil {
			list = append(list, r)
		}
	}
	return list
}

// behindText says of a gateway that is behind by how much, since when, and what that means.
func behindText(r *cellgatev1.GateReader) string {
	text := "reads a copy of Nova's database that is behind"
	if r.GetBehindSince() != nil {
		text += " since " + r.GetBehindSince().AsTime().Format(time.RFC3339)
	}
	text += fmt.Sprintf(", now by %v: what it answers by rows is that old", r.GetLag().AsDuration().Round(time.Second))
	if r.GetImports() {
		text += ", and so is what it imports into the cell"
	}
	return text
}

// showReaders lists the gateways that report Nova's tables, and how new what they read is.
func showReaders(w io.Writer, all []*cellgatev1.GateReader) error {
	if len(all) == 0 {
		return nil
	}
	t := newTable(w, "\nGATEWAY", "ROWS UP TO", "BEHIND THE NEWEST BY", "COUNTS AS BEHIND SINCE", "IMPORTS", "CANNOT READ")
	for _, r := range all {
		to, by, since, imports := "", "", "", ""
		if r.GetReadTo() != nil {
			to, by = r.GetReadTo().AsTime().Format(time.RFC3339), r.GetLag().AsDuration().Round(time.Second).String()
		}
		if r.GetBehindSince() != nil {
			since = r.GetBehindSince().AsTime().Format(time.RFC3339)
		}
		if r.GetImports() {
			imports = "yes"
		}
		t.row(r.GetGateway(), to, by, since, imports, r.GetUnreadable())
	}
	return t.end()
}
