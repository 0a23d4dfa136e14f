package main

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// listedHosts answers ListHosts with a host a page.
type listedHosts struct {
	grpc.ClientConnInterface
	hosts []*cellgatev1.Host
}

func (l listedHosts) Invoke(_ context.Context, _ string, in, out any, _ ...grpc.CallOption) error {
	n := len(in.(*cellgatev1.ListHostsRequest).GetPageToken())
	page := out.(*cellgatev1.ListHostsResponse)
	page.Hosts = l.hosts[n : n+1]
	if n+1 < len(l.hosts) {
		page.NextPageToken = in.(*cellgatev1.ListHostsRequest).GetPageToken() + "x"
	}
	return nil
}

func TestResolveHost_ByName_OneHostWithExactlyThisName(t *testing.T) {
	const known = "710c6178-bcf9-40bc-9303-112cd17ef687"
	conn := listedHosts{hosts: []*cellgatev1.Host{
		{ServiceHost: "cmp-1", HostUuid: known},
		{ServiceHost: "cmp-10", HostUuid: "x"},
		{ServiceHost: "both", HostUuid: "y", Cell: "cell1"},
		{ServiceHost: "both", HostUuid: "z", Cell: "cell2"},
	}}
	for given, want := range map[string]string{"cmp-1": known, known: known, "": ""} {
		req := &cellgatev1.GetHostRequest{HostUuid: given}
		if err := resolveHost(t.Context(), conn, req); err != nil || req.GetHostUuid() != want {
			t.Errorf("%q: %q, %v", given, req.GetHostUuid(), err)
		}
	}
	for given, want := range map[string]fault.Kind{"cmp": fault.NotFound, "both": fault.InvalidRequest} {
		if err := resolveHost(t.Context(), conn, &cellgatev1.GetHostRequest{HostUuid: given}); fault.KindOf(err) != want {
			t.Errorf("%q: %v, want %s", given, err, want)
		}
	}
	if err := resolveHost(t.Context(), conn, &cellgatev1.ListCellsRequest{}); err != nil {
		t.Error(err)
	}
}
