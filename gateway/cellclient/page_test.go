package cellclient

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A page ends before its message is too large for a client, over cells too.
func TestPagesFitAMessage(t *testing.T) {
	row := &cellgatev1.Host{ServiceHost: strings.Repeat("x", 1<<20)}
	rows := []*cellgatev1.Host{row, row, row, row}
	if got := FitPage(nil, rows); len(got) != 2 {
		t.Errorf("%d of 4 rows of a bit more than 1 MiB fit", len(got))
	}
	if got := FitPage(rows[:1], rows); len(got) != 1 {
		t.Errorf("%d of 4 rows fit after one", len(got))
	}
	if got := FitPage(rows[:3], rows); len(got) != 0 {
		t.Errorf("%d rows fit after three", len(got))
	}
	huge := []*cellgatev1.Host{{ServiceHost: strings.Repeat("x", maxPageBytes+1)}, row}
	if got := FitPage(nil, huge); len(got) != 1 {
		t.Errorf("a page of %d rows never ends the list", len(got))
	}
	if size := proto.Size(&cellgatev1.ListHostsResponse{Hosts: FitPage(nil, rows)}); size >= 4<<20 {
		t.Errorf("a page of %d bytes", size)
	}
}
