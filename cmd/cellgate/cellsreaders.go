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
	text += fmt.Sprintf(", now by %v", r.GetLag().AsDuration().Round(time.Second))
	if r.GetImports() {
		text += ": what it imports into the cell is that old"
	}
	return text
}

// showReaders lists the gateways that report Nova's tables, how new what they read is, and what
// they ask of services.
func showReaders(w io.Writer, all []*cellgatev1.GateReader) error {
	if len(all) == 0 {
		return nil
	}
	t := newTable(w, "\nGATEWAY", "ROWS UP TO", "BEHIND THE NEWEST BY", "COUNTS AS BEHIND SINCE", "IMPORTS", "REQUIRES", "SERVICE DOWN TIME", "CANNOT READ")
	for _, r := range all {
		to, by, since, imports, requires, down := "", "", "", "", "", ""
		if r.GetReadTo() != nil {
			to, by = r.GetReadTo().AsTime().Format(time.RFC3339), r.GetLag().AsDuration().Round(time.Second).String()
		}
		if r.GetBehindSince() != nil {
			since = r.GetBehindSince().AsTime().Format(time.RFC3339)
		}
		if r.GetImports() {
			imports = "yes"
		}
		switch {
		case r.GetRequiredVersion() > 0:
			requires = fmt.Sprint(r.GetRequiredVersion())
		case r.RequiredVersion != nil:
			requires = "none"
		}
		if r.GetServiceDownTime() != nil {
			down = r.GetServiceDownTime().AsDuration().String()
		}
		t.row(r.GetGateway(), to, by, since, imports, requires, down, r.GetUnreadable())
	}
	return t.end()
}
