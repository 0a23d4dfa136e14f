package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// pagingHosts serves 2,500 hosts. Each page names two cells that did not answer: one that is the
// same on every page, and one that differs.
type pagingHosts struct {
	cellgatev1.UnimplementedHostsServer
	sizes []int32
}

func (p *pagingHosts) ListHosts(_ context.Context, in *cellgatev1.ListHostsRequest) (*cellgatev1.ListHostsResponse, error) {
	p.sizes = append(p.sizes, in.GetPageSize())
	from, _ := strconv.Atoi(in.GetPageToken()) // empty is 0
	to := min(from+int(in.GetPageSize()), 2500)
	out := &cellgatev1.ListHostsResponse{UnavailableCells: []string{"cell9", fmt.Sprintf("cell%d", from)}}
	for i := from; i < to; i++ {
		out.Hosts = append(out.Hosts, &cellgatev1.Host{HostUuid: strconv.Itoa(i)})
	}
	if to < 2500 {
		out.NextPageToken = strconv.Itoa(to)
	}
	return out, nil
}

func TestList_SeveralPages_AreOneAnswer(t *testing.T) {
	at, p := listen(t), &pagingHosts{}
	serveGRPC(t, at, func(s *grpc.Server) { cellgatev1.RegisterHostsServer(s, p) })
	for _, c := range []struct {
		limit string
		hosts int
		more  string
		sizes []int32
		cells []string
	}{
		{"0", 2500, "", []int32{1000, 1000, 1000}, []string{"cell9", "cell0", "cell1000", "cell2000"}},
		{"1500", 1500, "1500", []int32{1000, 500}, []string{"cell9", "cell0", "cell1000"}},
		{"3", 3, "3", []int32{3}, []string{"cell9", "cell0"}},
	} {
		p.sizes = nil
		out, text, status := typed(t.Context(), "", "hosts", "--addr", at.Addr().String(), "--limit", c.limit, "-o", "json")
		var m struct {
			Hosts []struct {
				UUID string `json:"host_uuid"`
			}
			More  string   `json:"next_page_token"`
			Cells []string `json:"unavailable_cells"`
		}
		if err := json.Unmarshal([]byte(out), &m); err != nil || status != exitDone {
			t.Fatalf("--limit %s: %d, %v\n%s", c.limit, status, err, text)
		}
		last := m.Hosts[len(m.Hosts)-1].UUID
		if len(m.Hosts) != c.hosts || last != strconv.Itoa(c.hosts-1) || m.More != c.more || !slices.Equal(m.Cells, c.cells) || !slices.Equal(p.sizes, c.sizes) {
			t.Errorf("--limit %s: %d hosts to %s, more %q, without %v, pages of %v; want %+v", c.limit, len(m.Hosts), last, m.More, m.Cells, p.sizes, c)
		}
	}
	if _, text, status := typed(t.Context(), "", "hosts", "--addr", at.Addr().String(), "--sort", "uuid:desc", "-o", "json"); status != exitUsage || !strings.Contains(text, "--sort: is for tables") {
		t.Errorf("an order that JSON does not have: %d, %s", status, text)
	}
	// The result is the first of all hosts in that order, not of the first page.
	out, text, status := typed(t.Context(), "", "hosts", "--addr", at.Addr().String(), "--limit", "2", "--sort", "uuid:desc", "-o", "name")
	if status != exitDone || strings.Count(out, "\n") != 2 || !strings.Contains(text, "cellgate: 2 hosts shown; there are more: --limit 0 shows all\ncellgate: without those of cell9, ") {
		t.Errorf("%d, %q, %s", status, out, text)
	}
	out, text, status = typed(t.Context(), "", "hosts", "--addr", at.Addr().String(), "--limit", "2", "--sort", "uuid:desc", "-o", "wide")
	if status != exitDone || !strings.Contains(out, "2499") || !strings.Contains(out, "2498") || strings.Contains(out, "2497") || !strings.Contains(out, "2 hosts shown; there are more") {
		t.Errorf("%d, %q, %s", status, out, text)
	}
}
