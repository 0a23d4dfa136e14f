package cellclient

import (
	"log/slog"
	"strings"
	"testing"
	"time"

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

// A page begins in the middle of a cell and goes on with the first row of the next.
func TestPages_OverCells_EachRowIsListedOnce(t *testing.T) {
	cs, err := New([]CellConfig{{Name: "one"}, {Name: "two"}, {Name: "three"}}, Config{}, Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer cs.Close()
	rows := map[string][]string{"one": {"m", "n", "o"}, "two": {"a", "b", "p"}, "three": {"c"}}
	for size := int32(1); size < 9; size++ {
		req := &cellgatev1.ListClaimsRequest{PageSize: size}
		var all []string
		for pages := 0; pages == 0 || req.GetPageToken() != ""; pages++ {
			page, next, silent, err := Pages(cs, req, func(c *Cell, size int32, from PageToken) (got []*cellgatev1.Claim, more bool, err error) {
				for _, row := range rows[c.Name()] {
					if row > from.After {
						got = append(got, &cellgatev1.Claim{ClaimId: row})
					}
				}
				n := min(len(got), int(size))
				return got[:n], n < len(got), nil
			}, func(c *cellgatev1.Claim) PageToken { return PageToken{After: c.GetClaimId()} })
			for _, c := range page {
				all = append(all, c.GetClaimId())
			}
			if err != nil || len(silent) > 0 || pages > 9 {
				t.Fatal(err, silent, pages)
			}
			req.PageToken = next
		}
		if got := strings.Join(all, ""); got != "mnoabpc" {
			t.Errorf("pages of %d list %s", size, got)
		}
	}
}
